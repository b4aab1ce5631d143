package ops

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/tensor"
)

// Where returns elements of X where the condition is true, and of Y elsewhere
// (https://onnx.ai/onnx/operators/onnx__Where.html).
type Where struct{}

var _ = kit.Register(&kit.Def{Name: "Where", Since: kit.Versions{9, 16}, In: "condition:B, X:T, Y:T", Out: "output:T",
	Types:       "B: bool; T: @number string bool @complex",
	Elementwise: true,
	Build:       kit.WithoutAttrs[Where],
	Gradient: gradient.Rule(func(b *gradient.Builder, n *gradient.Node, g string) ([]string, error) {
		zero, condition := b.Filled(0, g), n.Inputs[0]
		x, y := b.Op("Where", condition, g, zero), b.Op("Where", condition, zero, g)
		return []string{"", b.SumTo(x, n.Input(1)), b.SumTo(y, n.Input(2))}, nil
	})})

// Infer implements [ir.Operator].
func (*Where) Infer(c *ir.InferContext) error {
	shape, err := kit.BroadcastDims(c.Shape(0), c.Shape(1), c.Shape(2))
	if err != nil {
		return err
	}
	c.SetOut(0, ir.Type{Kind: tensor.KindTensor, Elem: c.Elem(1), Shape: shape})
	if shape == nil || len(shape) > 1 {
		return nil
	}
	which, x, y := conditionDims(c), c.Contents(1), c.Contents(2)
	n := max(len(which), len(x), len(y))
	for _, d := range [][]ir.Dim{which, x, y} {
		if d == nil || len(d) != n && len(d) != 1 {
			return nil
		}
	}
	r := make([]ir.Dim, n)
	for i := range r {
		x, y := x[min(i, len(x)-1)], y[min(i, len(y)-1)]
		switch w := which[min(i, len(which)-1)]; {
		case w.Is(1) || x.Same(y):
			r[i] = x
		case w.Is(0):
			r[i] = y
		}
	}
	kit.SetContents(c, c.Elem(1), r)
	return nil
}

// conditionDims returns the condition as ones and zeros, as far as it is known.
func conditionDims(c *ir.InferContext) []ir.Dim {
	t := c.Const(0)
	if t == nil || t.DType() != tensor.TypeBool || t.Len() > tensor.MaxRank {
		return c.Contents(0)
	}
	d := make([]ir.Dim, t.Len())
	for i, w := range tensor.MustData[bool](t) {
		d[i] = ir.Known(0)
		if w {
			d[i] = ir.Known(1)
		}
	}
	return d
}

// Run implements [ir.Operator].
func (*Where) Run(c *ir.Call) error {
	cond, x, y := c.Tensor(0), c.Tensor(1), c.Tensor(2)
	shapes := [][]int{cond.Shape(), x.Shape(), y.Shape()}
	shape, err := kit.BroadcastShapes(shapes...)
	if err != nil {
		return err
	}
	d := x.DType()
	if d == tensor.TypeString {
		out, err := c.Output(0, d, shape...)
		if err != nil {
			return err
		}
		dst, which := tensor.MustData[string](out), tensor.MustData[bool](cond)
		from := [2][]string{tensor.MustData[string](x), tensor.MustData[string](y)}
		elementwise.EachBroadcastIndex(shape, shapes, func(i int, at []int) {
			if which[at[0]] {
				dst[i] = from[0][at[1]]
			} else {
				dst[i] = from[1][at[2]]
			}
		})
		return nil
	}
	l := elementwise.Loop{In: d, Out: d, Arity: 3}
	switch d.Size() {
	case 1:
		l.Run, l.Fast = whereLoop[uint8], whereFast(vec.SelectU8)
	case 2:
		l.Run, l.Fast = whereLoop[uint16], whereFast(vec.SelectU16)
	case 4:
		l.Run, l.Fast = whereLoop[uint32], whereFast(vec.SelectU32)
	case 8:
		l.Run, l.Fast = whereLoop[uint64], whereFast(vec.SelectU64)
	case 16:
		l.Run = whereLoop[[2]uint64]
	default:
		return fail.Errorf("elements of type %s are not supported", d)
	}
	return elementwise.RunLoop(c, l, kit.GrainCheap, shape, []*tensor.Tensor{cond, x, y}, shapes)
}

func whereFast[T any](kernel func(l cpu.Level, dst, x, y []T, which []bool)) func(out []byte, in *[3][]byte) {
	return func(out []byte, in *[3][]byte) {
		kernel(cpu.Active(), memory.FromRaw[T](out), memory.FromRaw[T](in[1]), memory.FromRaw[T](in[2]),
			memory.FromRaw[bool](in[0]))
	}
}

func whereLoop[T any](out []byte, in *[3][]byte) {
	dst, x, y := memory.FromRaw[T](out), memory.FromRaw[T](in[1]), memory.FromRaw[T](in[2])
	which := memory.FromRaw[bool](in[0])
	which, x, y = which[:len(dst)], x[:len(dst)], y[:len(dst)]
	for i := range dst {
		v, u := y[i], x[i]
		if which[i] {
			v = u
		}
		dst[i] = v
	}
}
