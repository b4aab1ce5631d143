package ops

import (
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// SequenceInsert returns its sequence with a tensor inserted at a position, by default at the end
// (https://onnx.ai/onnx/operators/onnx__SequenceInsert.html).
type SequenceInsert struct{}

var _ = kit.Register(&kit.Def{Name: "SequenceInsert", Since: kit.Versions{11},
	In: "input_sequence:seq(T), tensor:T, position:I?", Out: "output_sequence:seq(T)", Types: seqTypes,
	Build: func(a *kit.Attrs, opset int) kit.Operator { return &SequenceInsert{} }})

// Grows implements ir.Growing.
func (op *SequenceInsert) Grows() {}

// Infer implements ir.Operator.
func (op *SequenceInsert) Infer(c *ir.InferContext) error {
	t, err := widenBranch(sequenceElem(c, 0), c.Type(1))
	if err != nil {
		return fail.Errorf("item and sequence: %w", err)
	}
	c.SetOut(0, ir.SequenceOf(t))
	return nil
}

// Run implements ir.Operator.
func (op *SequenceInsert) Run(c *ir.Call) error {
	s, err := sequenceIn(c, 0)
	if err != nil {
		return err
	}
	item := c.In[1]
	if len(s.Items) > 0 && !item.Type().Equal(s.Elem) {
		return fail.Errorf("item has type %s, the sequence has elements of type %s", item.Type(), s.Elem)
	}
	p := len(s.Items)
	if c.Grows && !c.Has(2) {
		if len(s.Items) == cap(s.Items) { // append copies to twice the memory at most
			if err := c.Reserve(int64(len(s.Items)+1) * 32); err != nil {
				return err
			}
		}
		c.Set(0, &tensor.Sequence{Elem: item.Type(), Items: append(s.Items, item)})
		return nil
	}
	if c.Has(2) {
		if p, err = sequencePosition(c.Tensor(2), p, true); err != nil {
			return err
		}
	}
	if err := c.Reserve(int64(len(s.Items)+1) * 16); err != nil {
		return err
	}
	items := slices.Insert(append(make([]tensor.Value, 0, len(s.Items)+1), s.Items...), p, item)
	c.Set(0, &tensor.Sequence{Elem: item.Type(), Items: items})
	return nil
}
