package ops

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// cumulative is the common part of CumSum and CumProd. The axis is input 1.
type cumulative struct {
	Exclusive bool // exclude each element from its own result
	Reverse   bool // process from the end to the beginning
}

// readCumulative reads the attributes exclusive and reverse.
func readCumulative(a *kit.Attrs) cumulative {
	return cumulative{Exclusive: a.Bool("exclusive", false), Reverse: a.Bool("reverse", false)}
}

// cumulativeLines is a group of m adjacent lines along the axis.
type cumulativeLines struct {
	kit.AxisSpan
	base, M            int
	Call               *ir.Call // for checks of the context in long lines
	Exclusive, Reverse bool
}

// At returns the index of step k of the first line.
func (l cumulativeLines) At(k int) int {
	if l.Reverse {
		k = l.N - 1 - k
	}
	return l.base + k*l.Inner
}

// cumulativeKernel computes a cumulative operation along the axis of l.
type cumulativeKernel func(c *ir.Call, out, x *tensor.Tensor, l cumulativeLines) error

// cumulativeOf returns a kernel that calls lines for groups of up to block lines, in parallel.
// Inlined into its callers, the kernel would take kilobytes.
//
//go:noinline
func cumulativeOf[T tensor.Element](block int, lines func(dst, src []T, l cumulativeLines)) cumulativeKernel {
	return func(c *ir.Call, out, x *tensor.Tensor, l cumulativeLines) error {
		dst, src := tensor.MustData[T](out), tensor.MustData[T](x)
		l.EachLines(c, block, func(base, m int) {
			part := l
			part.base, part.M = base, m
			lines(dst, src, part)
		})
		return nil
	}
}

// cumulativeBits runs the kernel of a type of the same size, for results with the same bits.
func cumulativeBits(as tensor.DType, k cumulativeKernel) cumulativeKernel {
	return func(c *ir.Call, out, x *tensor.Tensor, l cumulativeLines) error {
		return k(c, kit.BitsAs(as, out), kit.BitsAs(as, x), l)
	}
}

// Infer implements [ir.Operator].
func (*cumulative) Infer(c *ir.InferContext) error {
	if t, s := c.Const(1), c.Shape(0); t != nil && s != nil {
		axis, err := kit.ScalarInt(t, "axis")
		if err != nil {
			return err
		}
		if _, err := kit.NormalAxis(axis, len(s)); err != nil {
			return err
		}
	}
	return kit.SameAsInput(c)
}

// RunWith applies the kernel for the type of input 0 along the axis that input 1 holds.
func (o *cumulative) RunWith(c *ir.Call, t map[tensor.DType]cumulativeKernel) error {
	x := c.Tensor(0)
	axis, err := kit.ScalarInt(c.Tensor(1), "axis")
	if err != nil {
		return err
	}
	if axis, err = kit.NormalAxis(axis, x.Rank()); err != nil {
		return err
	}
	l := cumulativeLines{AxisSpan: kit.SpanOf(x.Shape(), axis), Exclusive: o.Exclusive, Reverse: o.Reverse, Call: c}
	if d := x.DType(); d.IsFloat() {
		return kit.RunWide(c,
			func(dst, src []float32) error {
				return t[tensor.TypeFloat32](c, tensor.Must(tensor.New(dst, len(dst))),
					tensor.Must(tensor.New(src, len(src))), l)
			},
			func(dst, src []float64) error {
				return t[tensor.TypeFloat64](c, tensor.Must(tensor.New(dst, len(dst))),
					tensor.Must(tensor.New(src, len(src))), l)
			})
	}
	k := t[x.DType()]
	if k == nil {
		return fail.Errorf("elements of type %s are not supported", x.DType())
	}
	out, err := c.Output(0, x.DType(), x.Shape()...)
	if err != nil {
		return err
	}
	return k(c, out, x, l)
}
