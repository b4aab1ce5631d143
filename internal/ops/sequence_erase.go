package ops

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// SequenceErase returns its sequence without the item at a position, by default
// the last one (https://onnx.ai/onnx/operators/onnx__SequenceErase.html).
type SequenceErase struct{}

var _ = kit.Register(&kit.Def{Name: "SequenceErase", Since: kit.Versions{11},
	In: "input_sequence:seq(T), position:I?", Out: "output_sequence:seq(T)", Types: seqTypes,
	Build: func(a *kit.Attrs, opset int) kit.Operator { return &SequenceErase{} }})

// Infer implements ir.Operator.
func (op *SequenceErase) Infer(c *ir.InferContext) error {
	c.SetOut(0, c.Type(0))
	return nil
}

// Run implements ir.Operator.
func (op *SequenceErase) Run(c *ir.Call) error {
	s, err := sequenceIn(c, 0)
	if err != nil {
		return err
	}
	p := len(s.Items) - 1
	if c.Has(1) {
		if p, err = sequencePosition(c.Tensor(1), len(s.Items), false); err != nil {
			return err
		}
	}
	if p < 0 {
		return fail.Errorf("sequence is empty")
	}
	if err := c.Reserve(int64(len(s.Items)) * 16); err != nil {
		return err
	}
	items := append(append(make([]tensor.Value, 0, len(s.Items)), s.Items[:p]...), s.Items[p+1:]...)
	c.Set(0, &tensor.Sequence{Elem: s.Elem, Items: items})
	return nil
}
