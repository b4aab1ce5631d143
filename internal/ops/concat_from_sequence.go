package ops

import (
	"fmt"
	"slices"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// ConcatFromSequence joins the tensors of a sequence along Axis, or stacks them
// along a new one (https://onnx.ai/onnx/operators/onnx__ConcatFromSequence.html).
type ConcatFromSequence struct {
	Axis    int
	NewAxis bool
}

var _ = register(Def{Name: "ConcatFromSequence", Since: []int{11},
	In: "input_sequence:seq(T)", Out: "concat_result:T", Types: seqTypes,
	Build: simple(func(a *Attrs, opset int) Operator {
		a.Require("axis")
		return &ConcatFromSequence{Axis: a.Int("axis", 0), NewAxis: a.Bool("new_axis", false)}
	})})

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
	axis, err := normalAxis(op.Axis, len(shape))
	if err != nil {
		return err
	}
	if op.NewAxis {
		copy(shape[axis+1:], t.Shape[axis:])
	}
	shape[axis] = ir.Unknown
	setShape(c, 0, t.Elem, shape)
	return nil
}

// Run implements ir.Operator.
func (op *ConcatFromSequence) Run(c *ir.Call) error {
	s, err := sequenceIn(c, 0)
	if err != nil {
		return err
	}
	if len(s.Items) == 0 {
		return fmt.Errorf("the sequence is empty")
	}
	in := make([]*tensor.Tensor, len(s.Items))
	for i, v := range s.Items {
		t, ok := v.(*tensor.Tensor)
		if !ok {
			return fmt.Errorf("item %d is a %s, want a tensor", i, v.Type())
		}
		if op.NewAxis {
			axis, err := normalAxis(op.Axis, t.Rank()+1)
			if err != nil {
				return err
			}
			if t, err = t.Reshape(slices.Insert(slices.Clone(t.Shape()), axis, 1)...); err != nil {
				return err
			}
		}
		in[i] = t
	}
	shape, axis, err := concatShape(in, op.Axis)
	if err != nil {
		return err
	}
	dst, err := moveOut(c, 0, in[0].DType(), shape...)
	if err != nil {
		return err
	}
	return concatInto(c, dst, in, shape, axis)
}
