package exec

import (
	"context"
	"errors"
	"slices"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// turned reverses its input, not in place. It can be captured.
type turned struct {
	wrote *[]unsafe.Pointer // where results were written
	ran   *int              // how often Run was called
}

func (turned) Infer(c *ir.InferContext) error { c.SetOut(0, c.Type(0)); return nil }
func (o turned) Run(c *ir.Call) error {
	x := c.Tensor(0)
	y, err := c.Output(0, x.DType(), x.Shape()...)
	if err != nil {
		return err
	}
	src, dst := tensor.MustData[float32](x), tensor.MustData[float32](y)
	c.Launch(len(src), 16, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			dst[i] = src[len(src)-1-i]
		}
	})
	if o.wrote != nil {
		*o.wrote = append(*o.wrote, unsafe.Pointer(unsafe.SliceData(y.Bytes())))
		*o.ran++
	}
	return nil
}

func zeros(shape ...int) *tensor.Tensor {
	return tensor.Must(tensor.Zeros(tensor.TypeFloat32, shape...))
}

func runBound(t testing.TB, b *Bound) {
	t.Helper()
	if err := b.Run(context.Background(), &Request{}); err != nil {
		t.Fatal(err)
	}
}

// This test checks that the last operator writes to the bound memory itself, also through a
// view. After the shapes are known, only its kernel is called.
func TestBoundOutputIsWrittenInPlace(t *testing.T) {
	for _, rows := range []int{2, 1 << 14} { // below and above the size that is captured without a binding
		for _, view := range []bool{false, true} {
			var wrote []unsafe.Pointer
			ran := 0
			ops := []ir.Operator{addOne{}, turned{&wrote, &ran}}
			y := zeros(rows, 4)
			if view {
				ops, y = append(ops, flatView{}), zeros(rows*4)
			}
			p, err := Compile(t.Context(), chain(t, ops...), Options{Pool: NewPool(2, true)})
			if err != nil {
				t.Fatal(err)
			}
			b := p.NewBound()
			x := input(rows)
			b.SetInput(0, x)
			b.SetOutput(0, y)
			for k := range 8 {
				tensor.MustData[float32](x)[0] = float32(k)
				clear(y.Bytes())
				runBound(t, b)
				got := tensor.MustData[float32](y)
				if n := len(got); got[n-1] != float32(k)+1 || got[0] != tensor.MustData[float32](x)[n-1]+1 ||
					b.Result(0) != tensor.Value(y) {
					t.Fatalf("run %d: first %v, last %v", k, got[0], got[n-1])
				}
			}
			for _, at := range wrote {
				if at != unsafe.Pointer(unsafe.SliceData(y.Bytes())) {
					t.Errorf("rows=%d view=%v: a result was not written to the bound memory", rows, view)
				}
			}
			if ran > 4 && !checkReplay {
				t.Errorf("rows=%d view=%v: %d of 8 runs called Run, want at most 4", rows, view, ran)
			}
		}
	}
}

// Memory of an output may overlap an input or another output. It is written after everything
// has been read.
func TestBoundMemoryOverlaps(t *testing.T) {
	g := chain(t, turned{}, addOne{}, turned{})
	g.Outputs = []ir.ValueID{g.Nodes[2].Out[0], g.Nodes[0].Out[0], g.Inputs[0]}
	for _, o := range []Options{{}, {Generic: true}} {
		p, err := Compile(t.Context(), g, o)
		if err != nil {
			t.Fatal(err)
		}
		b := p.NewBound()
		x := input(3)
		b.SetInput(0, x)
		b.SetOutput(0, x) // in place: x = x+1
		other := zeros(3, 4)
		b.SetOutput(2, other)
		for k := range 7 {
			was := x.Clone()
			runBound(t, b)
			want(t, x, was, 1)
			want(t, other, was, 0)
			want(t, x, input(3), float32(k)+1)
		}
	}
}

// This test checks that a stopped run has no effect on later runs.
func TestBoundRunStops(t *testing.T) {
	p, err := Compile(t.Context(), chain(t, addOne{}, turned{}, turned{}, stopped{}), Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := p.NewBound()
	x := input(5)
	b.SetInput(0, x)
	b.SetOutput(0, nil)
	for k := range 30 {
		ctx, cancel := context.WithCancel(context.Background())
		stop = func() {}
		if k%5 == 4 {
			stop = cancel
		}
		err := b.Run(ctx, &Request{})
		if k%5 == 4 {
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("run %d: %v", k, err)
			}
		} else if err != nil {
			t.Fatal(err)
		} else {
			want(t, b.Result(0), x, 1)
		}
		cancel()
	}
}

var stop func()

// stopped copies its input and records, as long loops do, that the context has ended.
type stopped struct{}

func (stopped) Infer(c *ir.InferContext) error { c.SetOut(0, c.Type(0)); return nil }
func (stopped) Run(c *ir.Call) error {
	x := c.Tensor(0)
	y, err := c.Output(0, x.DType(), x.Shape()...)
	if err != nil {
		return err
	}
	ended := false
	c.Launch(1, 1, func(int, int) {
		if ended {
			return
		}
		copy(y.Bytes(), x.Bytes())
		stop()
		ended = c.Err() != nil
	})
	return nil
}

// A result that does not fit the caller's memory causes an error. Memory of the binding grows
// with the result.
func TestBoundShapes(t *testing.T) {
	p, err := Compile(t.Context(), chain(t, addOne{}, turned{}), Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := p.NewBound()
	b.SetOutput(0, zeros(2, 4))
	b.SetInput(0, input(3))
	if err := b.Run(context.Background(), &Request{}); !errors.Is(err, ErrBoundShape) {
		t.Errorf("got %v, want %v", err, ErrBoundShape)
	}
	b.SetOutput(0, zeros(12))
	if err := b.Run(context.Background(), &Request{}); !errors.Is(err, ErrBoundShape) {
		t.Errorf("got %v, want %v", err, ErrBoundShape)
	}
	b.SetOutput(0, nil)
	for _, n := range []int{3, 3, 5, 5, 5, 5, 3, 0, 3, 3} {
		b.SetInput(0, input(n))
		runBound(t, b)
		got := tensor.MustData[float32](b.Result(0).(*tensor.Tensor))
		slices.Reverse(got)
		want(t, tensor.Must(tensor.New(got, n, 4)), input(n), 1)
	}
	b.SetInput(0, nil)
	if err := b.Run(context.Background(), &Request{}); err == nil {
		t.Error("run without its input: no error")
	}
	b.SetInput(0, input(2))
	runBound(t, b)
	b.ClearOutput(0)
	runBound(t, b)
	if b.Result(0) != nil {
		t.Error("a result was returned that was not wanted")
	}
}

// drawChain draws up to six operators of some kinds, makes a graph of them, and draws which of
// their results are outputs besides the last.
func drawChain(t *testing.T, rt *rapid.T, graph func(testing.TB, ...ir.Operator) *ir.Graph,
	kinds ...ir.Operator) *ir.Graph {
	g := graph(t, rapid.SliceOfN(rapid.SampledFrom(kinds), 1, 6).Draw(rt, "ops")...)
	for _, n := range g.Nodes {
		if rapid.IntRange(0, 2).Draw(rt, "output") == 0 {
			g.Outputs = append(g.Outputs, n.Out[0])
		}
	}
	return g
}

// This test checks that chains of all kinds of operators compute the same with any bindings in
// any order.
func TestRandomBound(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		g := drawChain(t, rt, chain, addOne{}, turned{}, flatView{}, flat{}, body{n: 2})
		p, err := Compile(t.Context(), g, Options{Generic: rapid.Bool().Draw(rt, "generic")})
		if err != nil {
			rt.Fatal(err)
		}
		b := p.NewBound()
		for range rapid.IntRange(1, 5).Draw(rt, "rounds") {
			x := input(rapid.SampledFrom([]int{1, 3, 200, 5000}).Draw(rt, "rows"))
			b.SetInput(0, x)
			ref, err := p.Run(context.Background(), &Request{Inputs: []tensor.Value{x}})
			if err != nil {
				rt.Fatal(err)
			}
			given := make([]*tensor.Tensor, len(g.Outputs))
			for k := range given {
				switch rapid.IntRange(0, 3).Draw(rt, "bind") {
				case 0:
					b.SetOutput(k, nil)
				case 1:
					given[k] = ref[k].(*tensor.Tensor).Clone()
					b.SetOutput(k, given[k])
				case 2:
					b.ClearOutput(k)
				default: // unchanged, if it fits
					if b.out[k].fixed {
						b.SetOutput(k, nil)
					}
				}
			}
			for range rapid.IntRange(1, 6).Draw(rt, "runs") {
				for i, d := 0, tensor.MustData[float32](x); i < len(d); i++ {
					d[i] = 3 - d[i]
				}
				if ref, err = p.Run(context.Background(), &Request{Inputs: []tensor.Value{x}}); err != nil {
					rt.Fatal(err)
				}
				for _, y := range given {
					if y != nil {
						clear(y.Bytes())
					}
				}
				if err := b.Run(context.Background(), &Request{}); err != nil {
					rt.Fatal(err)
				}
				for k := range given {
					if b.out[k].wanted {
						if err := tensor.AllClose(b.Result(k), ref[k], 0, 0); err != nil {
							rt.Fatalf("output %d: %v", k, err)
						}
					}
				}
			}
		}
	})
}
