package ops

import (
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/move"
	"github.com/onward-ml/onward/tensor"
)

// SplitToSequence splits a tensor along Axis into the items of a sequence: of the sizes in input
// split, of any rank; of one size if that is a scalar, with the last item smaller if necessary; or
// of size 1 without split, where the axis is removed unless KeepDims is set
// (https://onnx.ai/onnx/operators/onnx__SplitToSequence.html).
type SplitToSequence struct {
	Axis     int
	KeepDims bool
}

var _ = kit.Register(&kit.Def{Name: "SplitToSequence", Since: kit.Versions{11, 24},
	In: "input:T, split:I?", Out: "output_sequence:seq(T)", Types: seqTypes,
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &SplitToSequence{Axis: a.Int("axis", 0), KeepDims: a.Bool("keepdims", true)}
	}})

// Infer implements ir.Operator.
func (op *SplitToSequence) Infer(c *ir.InferContext) error {
	in := c.Shape(0)
	t := ir.UnrankedTensor(c.Elem(0))
	if in != nil {
		axis, err := kit.NormalAxis(op.Axis, len(in))
		if err != nil {
			return err
		}
		shape := slices.Clone(in)
		switch shape[axis] = ir.Unknown; {
		case c.Has(1):
		case op.KeepDims:
			shape[axis] = ir.Known(1)
		default:
			shape = slices.Delete(shape, axis, axis+1)
		}
		t = ir.TensorType(c.Elem(0), shape...)
	}
	c.SetOut(0, ir.SequenceOf(t))
	return nil
}

// Run implements ir.Operator.
func (op *SplitToSequence) Run(c *ir.Call) error {
	x := c.Tensor(0)
	axis, err := kit.NormalAxis(op.Axis, x.Rank())
	if err != nil {
		return err
	}
	n := x.Dim(axis)
	size, count := 1, n
	var sizes []int
	if t := c.Tensor(1); t != nil {
		if t.Rank() == 0 {
			if size, err = kit.ScalarInt(t, "split"); err == nil && size < 1 {
				err = fail.Errorf("split is %d, want at least 1", size)
			}
			if err == nil {
				count = (n-1)/size + 1
				if n == 0 {
					count = 0
				}
			}
		} else if err = c.Reserve(int64(t.Len()) * 8); err == nil {
			sizes = kit.Ints(t)
			count = len(sizes)
			err = splitSizes(sizes, n)
		}
		if err != nil {
			return err
		}
	}
	const header = 192 // memory of an item besides its elements
	if int64(count) > 1<<40 {
		return fail.Errorf("split into %d items, want at most %d", count, int64(1)<<40)
	}
	if err := c.Reserve(int64(count) * header); err != nil {
		return err
	}
	src, err := move.In(c, x)
	if err != nil {
		return err
	}
	outer, inner := move.AxisBlocks(x.Shape(), axis)
	out := &tensor.Sequence{Elem: x.Type(), Items: make([]tensor.Value, count)}
	at := 0
	for i := range out.Items {
		if i&0x3f == 0 {
			if err := c.Err(); err != nil {
				return err
			}
		}
		w := min(size, n-at)
		if sizes != nil {
			w = sizes[i]
		}
		shape := slices.Clone(x.Shape())
		if shape[axis] = w; !op.KeepDims && !c.Has(1) {
			shape = slices.Delete(shape, axis, axis+1)
		}
		t, err := move.New(c, x.DType(), shape...)
		if err != nil {
			return err
		}
		dst, err := move.Into(c, t)
		if err != nil {
			return err
		}
		move.Strided(c, dst, src, []int{outer, w * inner}, []int{w * inner, 1}, 0, []int{n * inner, 1}, at*inner)
		dst.Done()
		out.Items[i] = t
		at += w
	}
	c.Set(0, out)
	return nil
}
