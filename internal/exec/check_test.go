package exec

import (
	"context"
	"strings"
	"testing"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// launched is an operator with the given run function and no other errors.
type launched struct {
	run func(c *ir.Call, dst, src []float32)
}

func (launched) Infer(c *ir.InferContext) error { c.SetOut(0, c.Type(0)); return nil }
func (o launched) Run(c *ir.Call) error {
	x := c.Tensor(0)
	y, err := c.Output(0, x.DType(), x.Shape()...)
	if err != nil {
		return err
	}
	o.run(c, tensor.MustData[float32](y), tensor.MustData[float32](x))
	return nil
}

// This test checks that the check of replays rejects each kind of operator that must not be
// captured, by name, and no other.
func TestCheckReplay(t *testing.T) {
	defer func(was bool) { checkReplay = was }(checkReplay)
	checkReplay = true
	kernel := func(c *ir.Call, dst, src []float32) {
		c.Launch(len(dst), 4, func(lo, hi int) { copy(dst[lo:hi], src[lo:hi]) })
	}
	stale := 0
	for _, test := range []struct {
		name, want string
		run        func(c *ir.Call, dst, src []float32)
	}{
		{"correct", "", kernel},
		{"waits", "", func(c *ir.Call, dst, src []float32) {
			kernel(c, dst, src)
			c.Sync()
			dst[0] = max(dst[0], src[0])
		}},
		{"declares", "", func(c *ir.Call, dst, src []float32) {
			c.DependsOn(0)
			first := src[0]
			c.Launch(1, 1, func(int, int) { copy(dst, src); dst[0] = first })
		}},
		{"host writes", "its kernels alone do not compute the results", func(c *ir.Call, dst, src []float32) {
			copy(dst, src)
			c.Launch(1, 1, func(int, int) { dst[0] = src[0] })
		}},
		{"host reads", "its kernels alone do not compute the results", func(c *ir.Call, dst, src []float32) {
			first := src[0]
			c.Launch(1, 1, func(int, int) { copy(dst, src); dst[0] = first })
		}},
		{"host decides", "its kernels alone do not compute the results", func(c *ir.Call, dst, src []float32) {
			if src[1] >= 0 { // as in all of the inputs
				kernel(c, dst, src)
			} else {
				c.Launch(1, 1, func(int, int) { clear(dst) })
			}
		}},
		{"keeps state", "a replay differs from a plain run", func(c *ir.Call, dst, src []float32) {
			stale = 0
			c.Launch(1, 1, func(int, int) {
				copy(dst, src)
				dst[0] += float32(stale)
				stale++
			})
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, bound := range []bool{false, true} {
				p, err := Compile(t.Context(), chain(t, addOne{}, launched{test.run}, addOne{}), Options{})
				if err != nil {
					t.Fatal(err)
				}
				x := input(3)
				b := p.NewBound()
				b.SetInput(0, x)
				b.SetOutput(0, nil)
				for range 8 {
					if bound {
						err = b.Run(context.Background(), &Request{})
					} else {
						_, err = p.Run(context.Background(), &Request{Inputs: []tensor.Value{x}})
					}
					if err != nil {
						break
					}
				}
				switch {
				case test.want == "" && err != nil:
					t.Errorf("bound=%v: %v", bound, err)
				case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) ||
					!strings.Contains(err.Error(), "launched")):
					t.Errorf("bound=%v: got %v, want the name of the node and %q", bound, err, test.want)
				}
			}
		})
	}
}

// peak is a budget that records the largest number of bytes in use.
type peak struct{ used, most int64 }

func (p *peak) Reserve(n int64) error {
	p.used += n
	p.most = max(p.most, p.used)
	return nil
}

func (p *peak) Release(n int64) { p.used -= n }

// This test checks that the check of replays reserves no more memory than plain runs do.
func TestCheckReplayReservesNoMore(t *testing.T) {
	defer func(was bool) { checkReplay = was }(checkReplay)
	var most [2][4]int64
	for i := range most {
		checkReplay = i == 1
		p, err := Compile(t.Context(), chain(t, &launching{}, &launching{}, &launching{}), Options{})
		if err != nil {
			t.Fatal(err)
		}
		for k := range most[i] {
			budget := &peak{}
			if _, err := p.Run(t.Context(), &Request{Inputs: []tensor.Value{input(300)}, Budget: budget}); err != nil {
				t.Fatal(err)
			}
			most[i][k] = budget.most
		}
	}
	if most[0][0] == 0 || most[1] != most[0] {
		t.Errorf("checked runs reserve %d bytes, want %d as others", most[1], most[0])
	}
}

// This test checks that the check of replays releases a value that depends on shapes, is not
// planned because a subgraph may keep it, and is used by a kernel last.
func TestCheckReplayReleasesResultsOfShapes(t *testing.T) {
	defer func(was bool) { checkReplay = was }(checkReplay)
	checkReplay = true
	g := chain(t, &launching{}, &rows{}, body{n: 1}, &launching{})
	last := g.NewValue("last", ir.Type{})
	g.Nodes = append(g.Nodes,
		&ir.Node{OpType: "launching", Op: &launching{}, In: g.Nodes[1].Out, Out: []ir.ValueID{last}})
	g.Outputs = append(g.Outputs, last)
	if err := ir.Infer(context.Background(), g); err != nil {
		t.Fatal(err)
	}
	p, err := Compile(t.Context(), g, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for range 6 { // a run that ends with reserved bytes panics
		out, err := p.Run(t.Context(), &Request{Inputs: []tensor.Value{input(3)}})
		if err != nil {
			t.Fatal(err)
		}
		if got := tensor.MustData[float32](out[1].(*tensor.Tensor))[0]; got != 4 {
			t.Fatalf("got %v for 3 rows, want 4", got)
		}
	}
}
