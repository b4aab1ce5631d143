package ops

import (
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/move"
	"github.com/onward-ml/onward/tensor"
)

// ConcatFromSequence concatenates the tensors of a sequence along Axis, or stacks them along a new
// axis (https://onnx.ai/onnx/operators/onnx__ConcatFromSequence.html).
type ConcatFromSequence struct {
	Axis    int
	NewAxis bool
}

var _ = kit.Register(&kit.Def{Name: "ConcatFromSequence", Since: kit.Versions{11},
	In: "input_sequence:seq(T)", Out: "concat_result:T", Types: seqTypes,
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		a.Require("axis")
		return &ConcatFromSequence{Axis: a.Int("axis", 0), NewAxis: a.Bool("new_axis", false)}
	}})

// Infer implements ir.Operator.
func (op *ConcatFromSequence) Infer(c *ir.InferContext) error {
	t := sequenceElem(c, 0)
	if t.Shape == nil {
		c.SetOut(0, t)
		return nil
	}
	shape := slices.Clone(t.Shape)
	if op.NewAxis {
		shape = append(shape, ir.Unknown)
	}
	axis, err := kit.NormalAxis(op.Axis, len(shape))
	if err != nil {
		return err
	}
	if op.NewAxis {
		copy(shape[axis+1:], t.Shape[axis:])
	}
	shape[axis] = ir.Unknown
	kit.SetShape(c, 0, t.Elem, shape)
	return nil
}

// Run implements ir.Operator.
func (op *ConcatFromSequence) Run(c *ir.Call) error {
	s, err := sequenceIn(c, 0)
	if err != nil {
		return err
	}
	if len(s.Items) == 0 {
		return fail.Errorf("sequence is empty")
	}
	size := int64(8) // of an element of in
	if op.NewAxis {
		size += 192 // of a reshaped item besides its elements
	}
	if err := c.Reserve(int64(len(s.Items)) * size); err != nil {
		return err
	}
	in := make([]*tensor.Tensor, len(s.Items))
	for i, v := range s.Items {
		if i&0x3ff == 0 {
			if err := c.Err(); err != nil {
				return err
			}
		}
		t, ok := v.(*tensor.Tensor)
		if !ok {
			return fail.Errorf("item %d has type %s, want a tensor", i, v.Type())
		}
		if op.NewAxis {
			axis, err := kit.NormalAxis(op.Axis, t.Rank()+1)
			if err != nil {
				return err
			}
			if t, err = t.Reshape(slices.Insert(slices.Clone(t.Shape()), axis, 1)...); err != nil {
				return err
			}
		}
		in[i] = t
	}
	shape, axis, err := move.ConcatShape(c, in, op.Axis)
	if err != nil {
		return err
	}
	dst, err := move.Out(c, 0, in[0].DType(), shape...)
	if err != nil {
		return err
	}
	return move.ConcatInto(c, dst, in, shape, axis)
}
