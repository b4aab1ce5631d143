package blocked_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/onward-ml/onward/internal/ir"
	_ "github.com/onward-ml/onward/internal/ops" // the plain operators
	"github.com/onward-ml/onward/internal/ops/blocked"
	"github.com/onward-ml/onward/internal/testing/optest"
	"github.com/onward-ml/onward/tensor"
)

// tails are numbers of channels that fill blocks of 16 in part, just, and beyond.
var tails = []int{1, 3, 4, 15, 16, 17, 20, 33, 48}

// normal returns normally distributed numbers.
func normal(rng *rand.Rand, dims ...int) *tensor.Tensor {
	t := tensor.Must(tensor.Zeros(tensor.TypeFloat32, dims...))
	for i := range tensor.MustData[float32](t) {
		tensor.MustData[float32](t)[i] = float32(rng.NormFloat64())
	}
	return t
}

// run runs an operator on one and on two workers. The results must be equal, and the inferred type
// must hold.
func run(t *testing.T, op ir.Operator, in ...*tensor.Tensor) (*tensor.Tensor, error) {
	t.Helper()
	n := &ir.Node{Op: op, Out: []ir.ValueID{0}}
	values, known := make([]tensor.Value, len(in)), make([]*ir.Value, len(in))
	for i, x := range in {
		if x != nil {
			values[i], known[i] = x, &ir.Value{Type: ir.TypeOf(x)}
		}
	}
	var inferred *ir.Type
	c := ir.NewInferContext(n, known, nil)
	inferErr := op.Infer(c)
	if inferErr == nil {
		inferred = &c.Results()[0].Type
	}
	var first *tensor.Tensor
	for _, two := range []bool{false, true} {
		call := &ir.Call{Node: n, Env: &optest.Env{Ctx: t.Context(), Two: two, Limit: optest.MemoryLimit}, In: values,
			Out: make([]tensor.Value, 1)}
		if err := optest.RunCaught(op, call); err != nil {
			return nil, err
		}
		got := call.Out[0].(*tensor.Tensor)
		if first == nil {
			first = got
		} else if !optest.Same(got, first, 0) {
			t.Errorf("%T: results on two workers differ", op)
		}
	}
	if inferErr != nil {
		t.Errorf("%T: Infer fails with %v, Run does not", op, inferErr)
	} else if _, err := ir.MergeTypes(*inferred, ir.TypeOf(first)); err != nil {
		t.Errorf("%T returns %s, inferred as %s: %v", op, ir.TypeOf(first), *inferred, err)
	}
	return first, nil
}

// ran is run for an operator that must not fail.
func ran(t *testing.T, op ir.Operator, in ...*tensor.Tensor) *tensor.Tensor {
	t.Helper()
	y, err := run(t, op, in...)
	if err != nil {
		t.Fatalf("%T: %v", op, err)
	}
	return y
}

// fails runs an operator that must return an error that contains want.
func fails(t *testing.T, want string, op ir.Operator, in ...*tensor.Tensor) {
	t.Helper()
	if _, err := run(t, op, in...); err == nil || !strings.Contains(err.Error(), want) ||
		strings.HasPrefix(err.Error(), "PANIC") {
		t.Errorf("%T: error is %v, want one with %q", op, err, want)
	}
}

// plain runs an operator of ONNX with the plain loops and returns its output.
func plain(t *testing.T, name string, opset int, attrs optest.Attrs, in ...tensor.Value) *tensor.Tensor {
	t.Helper()
	b, err := optest.Build(name, opset, attrs, len(in), 1)
	if err != nil {
		t.Fatal(err)
	}
	b.Node.In = make([]ir.ValueID, len(in))
	c := &ir.Call{Node: b.Node, Env: &optest.Env{Ctx: t.Context(), Limit: optest.MemoryLimit}, Generic: true, In: in,
		Out: make([]tensor.Value, 1)}
	if err := optest.RunCaught(b.Node.Op, c); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return c.Out[0].(*tensor.Tensor)
}

// built returns an operator of ONNX.
func built[T any](t *testing.T, name string, opset int, attrs optest.Attrs, inputs int) T {
	t.Helper()
	b, err := optest.Build(name, opset, attrs, inputs, 1)
	if err != nil {
		t.Fatal(err)
	}
	return b.Node.Op.(T)
}

// toBlocked returns an image in a layout.
func toBlocked(t *testing.T, l blocked.Layout, x *tensor.Tensor) *tensor.Tensor {
	t.Helper()
	return ran(t, &blocked.ToBlocked{Out: l}, x)
}

// checkBlocked runs an operator whose output has the layout out, and compares it with want, the
// output of a plain operator. The border of the layout must be zero: what reads the output takes it
// for padding.
func checkBlocked(t *testing.T, what string, op ir.Operator, out blocked.Layout, want *tensor.Tensor, tol float64,
	in ...*tensor.Tensor) {
	t.Helper()
	y := ran(t, op, in...)
	if got := ran(t, &blocked.FromBlocked{In: out, Rank: want.Rank()}, y); !near(got, want, tol) {
		t.Errorf("%s: %T returns %s, want %s", what, op, optest.Show(got), optest.Show(want))
	}
	for n := range y.Dim(0) {
		image := tensor.MustData[float32](y)[n*out.Len():][:out.Len()]
		for b := range out.Blocks() {
			for row := -out.Top; row < out.H+out.Bottom; row++ {
				for col := -out.Left; col < out.W+out.Right; col++ {
					if row >= 0 && row < out.H && col >= 0 && col < out.W {
						continue
					}
					for lane, v := range image[out.At(b, row, col):][:16] {
						if v != 0 {
							t.Fatalf("%s: %T writes %v to the border at block %d, row %d, column %d, lane %d", what, op,
								v, b, row, col, lane)
						}
					}
				}
			}
		}
	}
}

// near compares with an absolute and relative tolerance.
func near(got, want *tensor.Tensor, tol float64) bool {
	return tensor.AllClose(got, want, tol, tol) == nil
}

// borders are layouts of c×h×w images without and with a border.
func borders(c, h, w int) []blocked.Layout {
	return []blocked.Layout{blocked.NewLayout(c, h, w, 0, 0, 0, 0), blocked.NewLayout(c, h, w, 1, 2, 3, 1)}
}

func TestToAndFromBlocked(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, c := range tails {
		for _, shape := range [][]int{{2, c, 5, 3}, {1, c, 7}, {3, c}, {0, c, 2, 2}} {
			l := append(shape[1:], 1, 1)[:3]
			if len(shape) == 3 {
				l = []int{c, 1, shape[2]}
			}
			for _, layout := range borders(l[0], l[1], l[2]) {
				x := normal(rng, shape...)
				checkBlocked(t, fmt.Sprint(shape), &blocked.ToBlocked{Out: layout}, layout, x, 0, x)
			}
		}
	}
	l := blocked.NewLayout(20, 4, 6, 0, 0, 0, 0)
	for _, shape := range [][]int{{1, 19, 4, 6}, {1, 20, 6, 4}, {1, 20, 24}, {20, 4, 6}, {1, 20, 4, 6, 1}} {
		fails(t, "want [N 20 4 6]", &blocked.ToBlocked{Out: l}, normal(rng, shape...))
	}
	for _, shape := range [][]int{{1, l.Len() - 1}, {l.Len()}, {1, 20, 4, 6}} {
		fails(t, "for 20×4×6 images", &blocked.FromBlocked{In: l, Rank: 4}, normal(rng, shape...))
	}
}
