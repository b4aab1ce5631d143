package exec

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

func TestMain(m *testing.M) {
	CrashOnPanic()
	os.Exit(m.Run())
}

// addOne is an operator: out = in + 1, float32.
type addOne struct{}

func (addOne) Infer(c *ir.InferContext) error { c.SetOut(0, c.Type(0)); return nil }
func (addOne) Run(c *ir.Call) error {
	x := c.Tensor(0)
	y, err := c.Output(0, x.DType(), x.Shape()...)
	if err != nil {
		return err
	}
	src, dst := tensor.MustData[float32](x), tensor.MustData[float32](y)
	c.Parallel(len(src), 16, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			dst[i] = src[i] + 1
		}
	})
	return nil
}

// flat is a view: in as one dimension.
type flat struct{}

func (flat) Infer(c *ir.InferContext) error {
	c.SetOut(0, ir.TensorType(c.Elem(0), ir.Product(c.Shape(0))))
	return nil
}
func (f flat) Run(c *ir.Call) error {
	x := c.Tensor(0)
	y, err := x.Reshape(x.Len())
	c.Set(0, y)
	return err
}

type flatView struct{ flat }

func (flatView) ViewOf() int { return 0 }

// body runs its subgraph n times, each time with the previous result.
type body struct{ n int }

func (b body) Infer(c *ir.InferContext) error {
	out, err := c.InferGraph(0, []ir.Value{{Type: c.Type(0)}})
	if err == nil {
		c.SetOut(0, out[0].Type)
	}
	return err
}

func (b body) Run(c *ir.Call) error {
	v := c.In[0]
	for i := range b.n {
		out, err := c.RunGraph(0, []tensor.Value{v})
		if err != nil {
			return err
		}
		if i > 0 {
			c.Release(v)
		}
		v = out[0]
	}
	c.Set(0, v)
	return nil
}

// chain builds x → op → op → … and returns its graph.
func chain(t testing.TB, ops ...ir.Operator) *ir.Graph {
	g := &ir.Graph{}
	v := g.NewValue("x", ir.TensorType(tensor.TypeFloat32, ir.Symbol("N"), ir.Known(4)))
	g.Inputs = []ir.ValueID{v}
	for i, op := range ops {
		o := g.NewValue(fmt.Sprint("v", i), ir.Type{})
		n := &ir.Node{OpType: fmt.Sprintf("%T", op), Op: op, In: []ir.ValueID{v}, Out: []ir.ValueID{o}}
		if _, ok := op.(body); ok {
			n.Graphs = []*ir.Graph{chain(t, addOne{}, addOne{})}
		}
		g.Nodes = append(g.Nodes, n)
		v = o
	}
	g.Outputs = []ir.ValueID{v}
	if err := ir.Infer(context.Background(), g); err != nil {
		t.Fatal(err)
	}
	return g
}

func input(n int) *tensor.Tensor {
	x := make([]float32, 4*n)
	for i := range x {
		x[i] = float32(i)
	}
	return tensor.Must(tensor.New(x, n, 4))
}

// want checks that out equals x + k.
func want(t *testing.T, out tensor.Value, x *tensor.Tensor, k float32) {
	t.Helper()
	got, in := tensor.MustData[float32](out.(*tensor.Tensor)), tensor.MustData[float32](x)
	if len(got) != len(in) {
		t.Fatalf("%d elements, want %d", len(got), len(in))
	}
	for i := range got {
		if got[i] != in[i]+k {
			t.Fatalf("element %d is %v, want %v", i, got[i], in[i]+k)
		}
	}
}

func TestRun(t *testing.T) {
	ops := []ir.Operator{addOne{}, flatView{}, addOne{}, flat{}, addOne{}, body{n: 3}, addOne{}}
	for _, o := range []Options{{Generic: true}, {}, {Pool: NewPool(4, true)}} {
		p, err := Compile(t.Context(), chain(t, ops...), o)
		if err != nil {
			t.Fatal(err)
		}
		// Sizes alternate, so that planned memory grows, shrinks and is reused.
		for _, n := range []int{3, 3, 50, 3, 50, 1, 0, 50} {
			x := input(n)
			out, err := p.Run(context.Background(), &Request{Inputs: []tensor.Value{x}})
			if err != nil {
				t.Fatal(err)
			}
			want(t, out[0], x, 10)
			want(t, x, input(n), 0)
		}
	}
}

// This test checks that a result does not share the memory of an input, a constant or a later
// run.
func TestOutputsBelongToTheCaller(t *testing.T) {
	for _, ops := range [][]ir.Operator{{flatView{}}, {flat{}}, {addOne{}, flatView{}},
		{addOne{}, flatView{}, flatView{}}, {body{n: 1}}, {body{n: 0}}} {
		for _, o := range []Options{{Generic: true}, {}} {
			p, err := Compile(t.Context(), chain(t, ops...), o)
			if err != nil {
				t.Fatal(err)
			}
			var results []tensor.Value
			x := input(8)
			for range 3 {
				out, err := p.Run(context.Background(), &Request{Inputs: []tensor.Value{x}})
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range append(results, x) {
					if overlap(out[0].(*tensor.Tensor), r.(*tensor.Tensor)) {
						t.Fatalf("%T: a result shares memory with an input, a constant or a later run", ops)
					}
				}
				results = append(results, out[0])
			}
		}
	}
}

func TestPreallocatedOutputIsFilled(t *testing.T) {
	p, err := Compile(t.Context(), chain(t, addOne{}, addOne{}), Options{})
	if err != nil {
		t.Fatal(err)
	}
	given, x := input(5), input(5)
	out, err := p.Run(context.Background(), &Request{Inputs: []tensor.Value{x}, Outputs: []tensor.Value{given}})
	if err != nil {
		t.Fatal(err)
	}
	if out[0] != tensor.Value(given) {
		t.Error("the output is another tensor than the given one")
	}
	want(t, given, x, 2)
}

func TestMemoryLimit(t *testing.T) {
	p, err := Compile(t.Context(), chain(t, addOne{}, addOne{}, body{n: 1000}), Options{})
	if err != nil {
		t.Fatal(err)
	}
	x := input(1 << 10) // 16 KiB
	for range 2 {
		if _, err := p.Run(context.Background(),
			&Request{Inputs: []tensor.Value{x}, MemoryLimit: 20 << 10}); !errors.Is(err, ErrMemoryLimit) {
			t.Fatalf("error is %v, want the memory limit", err)
		}
		// A thousand iterations of the body take no more memory than a few.
		if _, err := p.Run(context.Background(), &Request{Inputs: []tensor.Value{x}, MemoryLimit: 160 << 10}); err !=
			nil {
			t.Fatal(err)
		}
	}
}

func TestCancel(t *testing.T) {
	p, err := Compile(t.Context(), chain(t, body{n: 1 << 60}), Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() {
		_, err := p.Run(ctx, &Request{Inputs: []tensor.Value{input(4)}})
		done <- err
	}()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v, want %v", err, context.Canceled)
	}
}

func TestManyGoroutines(t *testing.T) {
	pool := testPool(t, 3, 3)
	p, err := Compile(t.Context(), chain(t, addOne{}, flatView{}, addOne{}, body{n: 2}), Options{Pool: pool})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for k := range 8 {
		wg.Go(func() {
			for i := range 50 {
				x := input(1 + (k+i)%7*100)
				out, err := p.Run(context.Background(), &Request{Inputs: []tensor.Value{x}})
				if err != nil {
					t.Error(err)
					return
				}
				want(t, out[0], x, 6)
			}
		})
	}
	wg.Wait()
}

func TestLayoutKeepsLiveGroupsApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 40).Draw(t, "groups")
		groups, size := make([]group, n), make([]int, n)
		for i := range groups {
			groups[i].first = rapid.IntRange(0, 30).Draw(t, "first")
			groups[i].last = groups[i].first + rapid.IntRange(0, 10).Draw(t, "life")
			size[i] = rapid.IntRange(0, 1000).Draw(t, "size")
		}
		l := newLayout(groups, size, func() error { return nil })
		for i := range groups {
			if size[i] > 0 && (l.offset[i] < 0 || l.offset[i]%align != 0 || l.offset[i]+size[i] > l.total) {
				t.Fatalf("group %d of %d bytes is at %d of %d", i, size[i], l.offset[i], l.total)
			}
			for j := range i {
				alive := groups[i].first <= groups[j].last && groups[j].first <= groups[i].last
				if alive && size[i] > 0 && size[j] > 0 && l.offset[i] < l.offset[j]+size[j] &&
					l.offset[j] < l.offset[i]+size[i] {
					t.Fatalf("groups %d and %d overlap", i, j)
				}
			}
		}
	})
}

func TestLayoutStops(t *testing.T) {
	const n = 50
	groups, size, asked := make([]group, n), slices.Repeat([]int{8}, n), 0
	l := newLayout(groups, size, func() error {
		if asked++; asked == 3 {
			return context.Canceled
		}
		return nil
	})
	if l != nil || asked != 3 {
		t.Fatalf("a layout of %d groups asked %d times, want an end at the third", n, asked)
	}
}

func BenchmarkChain(b *testing.B) {
	ops := make([]ir.Operator, 100)
	for i := range ops {
		ops[i] = addOne{}
	}
	p, err := Compile(b.Context(), chain(b, ops...), Options{})
	if err != nil {
		b.Fatal(err)
	}
	req := &Request{Inputs: []tensor.Value{input(1)}, Outputs: []tensor.Value{input(1)}}
	out := make([]tensor.Value, 1)
	b.ReportAllocs()
	for b.Loop() {
		if err := p.RunInto(context.Background(), req, out); err != nil {
			b.Fatal(err)
		}
	}
}

// TestStatesOfTeams checks that a team gets the state of its last run, whatever the order of runs.
func TestStatesOfTeams(t *testing.T) {
	p, err := Compile(t.Context(), chain(t, addOne{}), Options{Pool: testPool(t, 16, 16)})
	if err != nil {
		t.Fatal(err)
	}
	teams := []Team{{}, {Size: 8}, {Size: 8, First: 8}, {Size: 4, First: 8}}
	last := make([]*state, len(teams))
	for round, order := range [][]int{{0, 1, 2, 3}, {2, 3, 0, 1}, {3, 2, 1, 0}} {
		states := make([]*state, len(teams))
		for _, k := range order {
			states[k] = p.state(teams[k])
			states[k].start(t.Context(), &Request{Team: teams[k]})
		}
		for _, s := range states {
			s.finish()
		}
		if round > 0 && !slices.Equal(states, last) {
			t.Errorf("round %d: teams in the order %v got other states than before", round, order)
		}
		last = states
	}
	if s := p.state(Team{Size: 2}); !slices.Contains(last, s) {
		t.Error("a team without a state got a new one, want an idle one")
	}
}
