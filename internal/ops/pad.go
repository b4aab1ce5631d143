package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/internal/ops/kit/move"
	"github.com/onward-ml/onward/tensor"
)

// Pad adds elements before and after each dimension, or removes some if a count is negative. Mode
// selects the added elements: a constant, elements mirrored at the edge element (reflect), the edge
// element (edge), or those of the other end (wrap). The pattern continues periodically
// (https://onnx.ai/onnx/operators/onnx__Pad.html).
type Pad struct {
	Mode  string
	Value float32 // opsets 1 and 2: value of mode constant
	Row   bool    // pads may be a matrix with one row, as in com.microsoft
}

var _ = kit.Register(&kit.Def{Name: "Pad", Since: kit.Versions{1, 2, 11, 13, 18, 19, 21, 23, 24, 25},
	In: "data:T, pads:int64, constant_value:T?, axes:I?", Out: "output:T", Types: "T: @all; I: int32 int64",
	Selects: kit.Always, Build: func(a *kit.Attrs, opset int) kit.Operator {
		op := &Pad{Mode: a.Enum("mode", "constant", "constant", "reflect", "edge", "wrap")}
		if opset < 11 {
			name := "pads"
			if opset < 2 {
				name = "paddings"
			}
			a.Require(name)
			a.SetInputInts(1, a.Ints(name))
			op.Value = a.Float("value", 0)
		}
		return op
	},
	Gradient: gradient.Rule(padGradient)})

// padGradient pads the numbers of the elements with 0, which numbers no element.
func padGradient(b *gradient.Builder, n *gradient.Node, g string) ([]string, error) {
	m := n.WithInputs()
	m.Attrs = n.Attrs.Without("value")
	if len(m.Inputs) > 2 {
		m.Inputs[2] = ""
	}
	return gradient.MovedBack(b, m, g)
}

// PadCounts returns the counts before and after all dimensions, from the inputs pads and, if it is
// given, axes of a Pad. zero is the count of other dimensions.
func PadCounts[D any](pads []D, axes []int, given bool, rank int, zero D) (before, behind []D, err error) {
	n := rank
	if given {
		n = len(axes)
	}
	if len(pads) != 2*n {
		return nil, nil, fail.Errorf("pads has %d elements, want %d for %d axes", len(pads), 2*n, n)
	}
	before, behind = make([]D, rank), make([]D, rank)
	for i := range rank {
		before[i], behind[i] = zero, zero
	}
	if given {
		if _, err := kit.NormalAxes(axes, rank); err != nil {
			return nil, nil, err
		}
	}
	for i := range n {
		a := i
		if given {
			if a = axes[i]; a < 0 {
				a += rank
			}
		}
		before[a], behind[a] = pads[i], pads[n+i]
	}
	return before, behind, nil
}

// Infer implements ir.Operator.
func (op *Pad) Infer(c *ir.InferContext) error {
	if s := c.Shape(1); op.Row && len(s) == 2 {
		if s[0].Differs(ir.Known(1)) {
			return fail.Errorf("pads has shape %v, want one dimension or one row", s)
		}
	} else if err := kit.CheckSmall(c, 1, "pads"); err != nil {
		return err
	}
	in := c.Shape(0)
	kit.SetShape(c, 0, c.Elem(0), nil)
	if in == nil {
		return nil
	}
	out := ir.UnknownDims(len(in))
	kit.SetShape(c, 0, c.Elem(0), out)
	pads := c.Contents(1)
	axes, ok := kit.KnownInts(c, 3)
	if pads == nil || c.Has(3) && !ok {
		return nil
	}
	before, behind, err := PadCounts(pads, axes, c.Has(3), len(in), ir.Known(0))
	if err != nil {
		return err
	}
	for i := range out {
		out[i] = in[i].Add(before[i]).Add(behind[i])
		if n, ok := out[i].Value(); ok && n < 0 {
			return fail.Errorf("dimension %d of size %s becomes negative with pads %s and %s", i,
				in[i], before[i], behind[i])
		}
	}
	return nil
}

// Run implements ir.Operator.
func (op *Pad) Run(c *ir.Call) error {
	x := c.Tensor(0)
	counts := c.Tensor(1)
	if op.Row && counts.Rank() == 2 && counts.Dim(0) == 1 {
		var err error
		if counts, err = counts.Reshape(counts.Dim(1)); err != nil {
			return err
		}
	}
	pads, err := kit.SmallInts(counts, "pads")
	if err != nil {
		return err
	}
	axes, err := kit.SmallInts(c.Tensor(3), "axes")
	if err != nil {
		return err
	}
	before, behind, err := PadCounts(pads, axes, c.Has(3), x.Rank(), 0)
	if err != nil {
		return err
	}
	shape := make([]int, x.Rank())
	for i, d := range x.Shape() {
		const far = math.MaxInt / 4
		if b, e := before[i], behind[i]; b < -far || b > far || e < -far || e > far || d+b+e < 0 {
			return fail.Errorf("dimension %d of size %d is out of range with pads %d and %d", i, d, b, e)
		}
		shape[i] = d + before[i] + behind[i]
	}
	value := c.Tensor(2)
	if value != nil && value.Len() != 1 {
		return fail.Errorf("constant_value has shape %v, want one element", value.Shape())
	}
	dst, err := move.Out(c, 0, x.DType(), shape...)
	if err != nil {
		return err
	}
	src, err := move.In(c, x)
	if err != nil {
		return err
	}
	if dst.Len() == 0 {
		return nil
	}
	if op.Mode == "constant" {
		err = op.constant(c, dst, src, x, value, before, shape)
	} else {
		err = op.mirrored(c, dst, src, x.Shape(), before, behind)
	}
	dst.Done()
	return err
}

func (op *Pad) constant(c *ir.Call, dst, src move.Buf, x, value *tensor.Tensor, before, shape []int) error {
	if value == nil && op.Value != 0 {
		var err error
		if value, err = floatScalar(x.DType(), op.Value); err != nil {
			return err
		}
	}
	if value == nil {
		move.Clear(c, dst)
	} else {
		v, err := move.In(c, value)
		if err != nil {
			return err
		}
		move.Fill(c, dst, v)
	}
	move.Centered(c, dst, src, shape, x.Shape(), before)
	return nil
}

// floatScalar returns a scalar of a floating-point or integer type.
func floatScalar(d tensor.DType, v float32) (*tensor.Tensor, error) {
	switch d {
	case tensor.TypeFloat16:
		return tensor.Scalar(tensor.NewFloat16(v)), nil
	case tensor.TypeBFloat16:
		return tensor.Scalar(tensor.NewBFloat16(v)), nil
	case tensor.TypeFloat32:
		return tensor.Scalar(v), nil
	case tensor.TypeFloat64:
		return tensor.Scalar(float64(v)), nil
	case tensor.TypeInt32:
		return tensor.Scalar(int32(v)), nil
	case tensor.TypeInt64:
		return tensor.Scalar(int64(v)), nil
	}
	return nil, fail.Errorf("attribute value %v is out of the range of %s", v, d)
}

// mirrored writes the modes that repeat elements of the input. Negative counts are applied first.
func (op *Pad) mirrored(c *ir.Call, dst, src move.Buf, in, before, behind []int) error {
	maps := make([][]int, len(in))
	st := kit.Strides(in)
	first, end := 0, 0 // of the elements that are not mirrored in the last dimension
	for k, d := range in {
		lo := max(0, -before[k])
		n := d - lo - max(0, -behind[k])
		if n <= 0 {
			return fail.Errorf("dimension %d of size %d is empty after cropping and cannot be padded in mode %s",
				k, d, op.Mode)
		}
		m, err := ir.ScratchOf[int](c, d+before[k]+behind[k])
		if err != nil {
			return err
		}
		first = max(0, before[k])
		end = first + n
		for i := 0; i < len(m); i++ {
			m[i] = (lo + padSource(op.Mode, i-first, n)) * st[k]
			if i == first && k == len(in)-1 && n >= move.LongRun {
				i = end - 1
			}
		}
		maps[k] = m
	}
	move.Mapped(c, dst, src, maps, first, end)
	return nil
}

// Indices returns the input index of each output index along a dimension of size d, in the modes
// that repeat elements, or nil if no input element is left.
func (op *Pad) Indices(d, before, behind int) []int {
	lo := max(0, -before)
	n := d - lo - max(0, -behind)
	if n <= 0 {
		return nil
	}
	r := make([]int, d+before+behind)
	for i := range r {
		r[i] = lo + padSource(op.Mode, i-max(0, before), n)
	}
	return r
}

// padSource returns the index, of n elements, of the element at index i, which may be out of range.
func padSource(mode string, i, n int) int {
	switch {
	case i >= 0 && i < n:
		return i
	case mode == "edge":
		return min(max(i, 0), n-1)
	case mode == "wrap":
		if i %= n; i < 0 {
			i += n
		}
		return i
	case n == 1:
		return 0
	}
	period := 2 * (n - 1)
	if i %= period; i < 0 {
		i += period
	}
	return min(i, period-i)
}
