package kit

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// Cumulative is the common part of CumSum and CumProd. The axis is input 1.
type Cumulative struct {
	Exclusive bool // exclude each element from its own result
	Reverse   bool // process from the end to the beginning
}

// ReadCumulative reads the attributes exclusive and reverse.
func ReadCumulative(a *Attrs) Cumulative {
	return Cumulative{Exclusive: a.Bool("exclusive", false), Reverse: a.Bool("reverse", false)}
}

// CumulativeLines is a group of m adjacent lines along the axis.
type CumulativeLines struct {
	AxisSpan
	base, M            int
	Call               *ir.Call // for checks of the context in long lines
	Exclusive, Reverse bool
}

// At returns the index of step k of the first line.
func (l CumulativeLines) At(k int) int {
	if l.Reverse {
		k = l.N - 1 - k
	}
	return l.base + k*l.Inner
}

// CumulativeKernel computes a cumulative operation along the axis of l.
type CumulativeKernel func(c *ir.Call, out, x *tensor.Tensor, l CumulativeLines) error

// CumulativeOf returns a kernel that calls lines for groups of up to block lines, in parallel. Inlined into its callers, the kernel would
// take kilobytes.
//
//go:noinline
func CumulativeOf[T tensor.Element](block int, lines func(dst, src []T, l CumulativeLines)) CumulativeKernel {
	return func(c *ir.Call, out, x *tensor.Tensor, l CumulativeLines) error {
		dst, src := tensor.Of[T](out), tensor.Of[T](x)
		l.EachLines(c, block, func(base, m int) {
			part := l
			part.base, part.M = base, m
			lines(dst, src, part)
		})
		return nil
	}
}

// CumulativeBits runs the kernel of a type of the same size, for results with the same bits.
func CumulativeBits(as tensor.DType, k CumulativeKernel) CumulativeKernel {
	return func(c *ir.Call, out, x *tensor.Tensor, l CumulativeLines) error {
		return k(c, bitsAs(as, out), bitsAs(as, x), l)
	}
}

// bitsAs returns the contents of t as elements of another type of the same size.
func bitsAs(d tensor.DType, t *tensor.Tensor) *tensor.Tensor {
	r := &tensor.Tensor{}
	r.Reset(d, t.Bytes(), t.Shape())
	return r
}

// Infer implements [ir.Operator].
func (*Cumulative) Infer(c *ir.InferContext) error {
	if t, s := c.Const(1), c.Shape(0); t != nil && s != nil {
		axis, err := ScalarInt(t, "axis")
		if err != nil {
			return err
		}
		if _, err := NormalAxis(axis, len(s)); err != nil {
			return err
		}
	}
	return SameAsInput(c)
}

// RunWith applies the kernel for the type of input 0 along the axis that input 1 holds.
func (o *Cumulative) RunWith(c *ir.Call, t map[tensor.DType]CumulativeKernel) error {
	x := c.Tensor(0)
	axis, err := ScalarInt(c.Tensor(1), "axis")
	if err != nil {
		return err
	}
	if axis, err = NormalAxis(axis, x.Rank()); err != nil {
		return err
	}
	l := CumulativeLines{AxisSpan: SpanOf(x.Shape(), axis), Exclusive: o.Exclusive, Reverse: o.Reverse, Call: c}
	if d := x.DType(); d.IsFloat() {
		return RunWide(c,
			func(dst, src []float32) error {
				return t[tensor.TypeFloat32](c, tensor.Must(tensor.New(dst, len(dst))), tensor.Must(tensor.New(src, len(src))), l)
			},
			func(dst, src []float64) error {
				return t[tensor.TypeFloat64](c, tensor.Must(tensor.New(dst, len(dst))), tensor.Must(tensor.New(src, len(src))), l)
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
