package exec

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// sized returns a matrix with the number of rows that its input, a scalar, contains.
type sized struct{}

func (sized) Infer(c *ir.InferContext) error {
	c.SetOut(0, ir.TensorType(tensor.TypeFloat32, ir.Unknown, ir.Known(4)))
	return nil
}
func (sized) Run(c *ir.Call) error {
	n := int(tensor.MustData[float32](c.Tensor(0))[0])
	if n < 0 {
		return errors.New("a negative size")
	}
	if err := c.Reserve(int64(n)); err != nil {
		return err
	}
	if _, err := c.Scratch(n); err != nil {
		return err
	}
	y, err := c.Output(0, tensor.TypeFloat32, n, 4)
	if err != nil {
		return err
	}
	clear(y.Bytes())
	return nil
}

// sizedChain is a chain after an operator whose output's size depends on contents.
func sizedChain(t testing.TB, ops ...ir.Operator) *ir.Graph {
	g := chain(t, append([]ir.Operator{sized{}}, ops...)...)
	g.Values[g.Inputs[0]].Type = ir.TensorType(tensor.TypeFloat32)
	return g
}

func size(n int) *tensor.Tensor { return tensor.Scalar(float32(n)) }

// held returns the reservations of the account and of the values of a state after a run.
func held(s *state) int64 {
	n := s.request.account.used.Load() + s.memory.n + s.results.n
	for _, h := range s.charged {
		n += h.n
	}
	for _, h := range s.held {
		n += h.n
	}
	return n
}

// This test checks that a value whose size differs from that of the captured run is reserved
// and released once.
func TestAccountOfChangingSizes(t *testing.T) {
	p, err := Compile(t.Context(), sizedChain(t, addOne{}, turned{}, addOne{}), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{3, 3, 3, 100000, 50, 3, 3, 3, 70, 3} {
		out, err := p.Run(context.Background(), &Request{Inputs: []tensor.Value{size(n)}, MemoryLimit: 8 << 20})
		if err != nil {
			t.Fatalf("n = %d: %v", n, err)
		}
		if y := out[0].(*tensor.Tensor); y.Dim(0) != n || n > 0 && tensor.MustData[float32](y)[0] != 2 {
			t.Errorf("n = %d: got %v", n, y)
		}
		if h := held(p.states.idle[0]); h != 0 {
			t.Errorf("n = %d: %d bytes are reserved after the run, want 0", n, h)
		}
	}
}

var errBudget = errors.New("no budget")

// fixedBudget is a budget of limit bytes; 0: no limit.
type fixedBudget struct{ limit, used int64 }

func (b *fixedBudget) Reserve(n int64) error {
	if b.limit > 0 && b.used+n > b.limit {
		return errBudget
	}
	b.used += n
	return nil
}

func (b *fixedBudget) Release(n int64) { b.used -= n }

// This test checks that the account is 0 after each run, however it ends, and that a limit that
// suffices for one run suffices for each later one.
func TestRandomAccount(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		g := drawChain(t, rt, sizedChain, addOne{}, turned{}, flatView{}, flat{}, body{n: 2}, &launching{}, stopped{})
		p, err := Compile(t.Context(), g, Options{Generic: rapid.IntRange(0, 4).Draw(rt, "generic") == 0})
		if err != nil {
			rt.Fatal(err)
		}
		b := p.NewBound()
		for k := range g.Outputs {
			b.SetOutput(k, nil)
		}
		x := size(0)
		b.SetInput(0, x)
		for range rapid.IntRange(1, 25).Draw(rt, "runs") {
			n := rapid.SampledFrom([]int{3, 3, 3, 3, 0, 50, 100000, -1}).Draw(rt, "n")
			tensor.MustData[float32](x)[0] = float32(n)
			limit := rapid.SampledFrom([]int64{0, 1 << 10, 1 << 16, 1 << 22}).Draw(rt, "limit")
			ctx, cancel := context.WithCancel(context.Background())
			stop = func() {}
			if rapid.IntRange(0, 5).Draw(rt, "cancel") == 0 {
				stop = cancel
			}
			budget := &fixedBudget{limit: rapid.SampledFrom([]int64{0, 1 << 10, 1 << 16, 1 << 22}).Draw(rt, "budget")}
			if rapid.Bool().Draw(rt, "bound") {
				err = b.Run(ctx, &Request{MemoryLimit: limit, Budget: budget})
			} else {
				_, err = p.Run(ctx, &Request{Inputs: []tensor.Value{x}, MemoryLimit: limit, Budget: budget})
			}
			cancel()
			if budget.used != 0 {
				rt.Fatalf("%d bytes of the budget are reserved after a run that ended with %v", budget.used, err)
			}
			if err != nil && budget.limit == 0 && errors.Is(err, errBudget) {
				rt.Fatal(err)
			}
			if err != nil && n >= 0 && !errors.Is(err, ErrMemoryLimit) && !errors.Is(err, errBudget) &&
				!errors.Is(err, context.Canceled) {
				rt.Fatal(err)
			}
			if err != nil && limit == 0 && errors.Is(err, ErrMemoryLimit) {
				rt.Fatal(err)
			}
			states := p.states.idle
			if b.states[0] != nil {
				states = append(states[:len(states):len(states)], b.states[0])
			}
			for _, s := range states {
				if h := held(s); h != 0 {
					rt.Fatalf("%d bytes are held after a run that ended with %v", h, err)
				}
			}
		}
	})
}

// This test checks that copies of outputs are reserved before they are made.
func TestLimitOfOutputs(t *testing.T) {
	const rows = 1 << 16
	for _, test := range []struct {
		name string
		ops  []ir.Operator
		out  int // the value of each output: 0 is the input
	}{
		{"input", []ir.Operator{addOne{}}, 0},
		{"result", []ir.Operator{addOne{}}, 1},
		{"view", []ir.Operator{addOne{}, flatView{}}, 2},
	} {
		for _, generic := range []bool{false, true} {
			g := chain(t, test.ops...)
			id := g.Inputs[0]
			if test.out > 0 {
				id = g.Nodes[test.out-1].Out[0]
			}
			g.Outputs = nil
			for range 1000 {
				g.Outputs = append(g.Outputs, id)
			}
			p, err := Compile(t.Context(), g, Options{Generic: generic})
			if err != nil {
				t.Fatal(err)
			}
			x := input(rows)
			_, err = p.Run(context.Background(), &Request{Inputs: []tensor.Value{x}, MemoryLimit: 8 << 20})
			if !errors.Is(err, ErrMemoryLimit) {
				t.Errorf("%s, generic=%v: got %v for a thousand outputs of 1 MiB, want %v", test.name, generic,
					err, ErrMemoryLimit)
			}
			b := p.NewBound()
			b.SetInput(0, x)
			for k := range g.Outputs {
				b.SetOutput(k, nil)
			}
			if err := b.Run(context.Background(), &Request{MemoryLimit: 8 << 20}); !errors.Is(err, ErrMemoryLimit) {
				t.Errorf("%s, generic=%v, bound: got %v, want %v", test.name, generic, err, ErrMemoryLimit)
			}
		}
	}
}

// This test checks that memory stays reserved as long as a view of it is used.
func TestViewsHoldMemory(t *testing.T) {
	const views = 8
	g := chain(t, addOne{})
	x := g.Inputs[0]
	g.Nodes, g.Outputs = nil, nil
	node := func(op ir.Operator, in ...ir.ValueID) ir.ValueID {
		id := g.NewValue("", g.Values[in[0]].Type)
		g.Nodes = append(g.Nodes, &ir.Node{OpType: "op", Op: op, In: in, Out: []ir.ValueID{id}})
		return id
	}
	var all []ir.ValueID
	for range views {
		all = append(all, node(viewOf{}, node(addOne{}, x)))
	}
	last := node(addOne{}, all...)
	g.Outputs = []ir.ValueID{last}
	for _, generic := range []bool{false, true} {
		p, err := Compile(t.Context(), g, Options{Generic: generic, Unplanned: true})
		if err != nil {
			t.Fatal(err)
		}
		in := input(1 << 16) // 1 MiB
		_, err = p.Run(context.Background(), &Request{Inputs: []tensor.Value{in}, MemoryLimit: 5 << 20})
		if !errors.Is(err, ErrMemoryLimit) {
			t.Errorf("generic=%v: got %v for eight views of 1 MiB, want %v", generic, err, ErrMemoryLimit)
		}
		if _, err = p.Run(context.Background(), &Request{Inputs: []tensor.Value{in}, MemoryLimit: 10 << 20}); err !=
			nil {
			t.Errorf("generic=%v: %v", generic, err)
		}
	}
}

// This test checks that released memory can be collected during the run.
func TestDeadValuesAreCollected(t *testing.T) {
	const count, rows = 32, 1 << 16 // of 1 MiB each
	var ops []ir.Operator
	for range count {
		ops = append(ops, addOne{}, viewOf{})
	}
	var live uint64
	ops = append(ops, probe{&live})
	for _, o := range []Options{{}, {Generic: true}, {Unplanned: true}} {
		p, err := Compile(t.Context(), chain(t, ops...), o)
		if err != nil {
			t.Fatal(err)
		}
		x := input(rows)
		runtime.GC()
		var before runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := p.Run(context.Background(), &Request{Inputs: []tensor.Value{x}}); err != nil {
			t.Fatal(err)
		}
		if n := (int64(live) - int64(before.HeapAlloc)) >> 20; n > count/2 {
			t.Errorf("%+v: %d of %d MiB are live at the end of the run", o, n, count)
		}
	}
}

// probe is addOne, and measures the live heap.
type probe struct{ live *uint64 }

func (probe) Infer(c *ir.InferContext) error { c.SetOut(0, c.Type(0)); return nil }
func (o probe) Run(c *ir.Call) error {
	for range 3 { // recycled memory is free after two collections
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	*o.live = m.HeapAlloc
	return addOne{}.Run(c)
}

// viewOf returns its input.
type viewOf struct{}

func (viewOf) Infer(c *ir.InferContext) error { c.SetOut(0, c.Type(0)); return nil }
func (viewOf) ViewOf() int                    { return 0 }
func (viewOf) Run(c *ir.Call) error           { c.Set(0, c.Tensor(0)); return nil }

// TestReserveCollectsGarbage: a run whose released values would exceed the limit together with its
// others runs the garbage collector, which by itself lets the heap double. Memory that others take
// again does not count as garbage.
func TestReserveCollectsGarbage(t *testing.T) {
	const limit = 512 << 20
	for _, c := range []struct {
		name          string
		first, second int64
		release       func(a *account, h *hold)
		want          bool // whether the collector runs
	}{
		{"released", limit / 2, limit * 3 / 4, (*account).release, true},
		{"reduced", limit / 2, limit * 3 / 4, func(a *account, h *hold) { a.reduce(h, h.n) }, true},
		{"fits beside", limit / 2, limit / 4, (*account).release, false},
		{"little garbage", limit / 32, limit, (*account).release, false},
		{"recycled", limit / 2, limit * 3 / 4, (*account).recycle, false},
	} {
		a, h := &account{limit: limit}, hold{}
		if err := a.reserve(&h, c.first); err != nil {
			t.Fatal(err)
		}
		c.release(a, &h)
		garbage := a.garbage.Load()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if err := a.reserve(&h, c.second); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		if forced := after.NumForcedGC > before.NumForcedGC; forced != c.want {
			t.Errorf("%s: %d bytes beside %d of garbage with a limit of %d run the garbage collector: %v, want %v",
				c.name, c.second, garbage, limit, forced, c.want)
		}
	}
}

// This test checks that the states of one run share its account.
func TestAccountIsShared(t *testing.T) {
	a := &account{limit: 1000}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			var h hold
			for i := range 1000 {
				if err := a.reserve(&h, int64(i%200)); err != nil && !errors.Is(err, ErrMemoryLimit) {
					t.Error(err)
				}
				a.reduce(&h, int64(i%70))
				if i%10 == 0 {
					a.release(&h)
					a.release(&h)
				}
				if n := a.used.Load(); n < 0 {
					t.Errorf("%d bytes are reserved, want at least 0", n)
				}
			}
			a.release(&h)
		})
	}
	wg.Wait()
	if n := a.used.Load(); n != 0 {
		t.Errorf("%d bytes are reserved at the end, want 0", n)
	}
	var h hold
	if a.reserve(&h, -1) == nil {
		t.Error("negative reservation: no error")
	}
}
