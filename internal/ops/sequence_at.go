package ops

import "github.com/onward-ml/onward/internal/ir"

// SequenceAt returns the item of a sequence at a position; negative ones count
// from the end (https://onnx.ai/onnx/operators/onnx__SequenceAt.html).
type SequenceAt struct{}

var _ = register(Def{Name: "SequenceAt", Since: []int{11},
	In: "input_sequence:seq(T), position:I", Out: "tensor:T", Types: seqTypes,
	Build: simple(func(a *Attrs, opset int) Operator { return &SequenceAt{} })})

// Infer implements ir.Operator.
func (op *SequenceAt) Infer(c *ir.InferContext) error {
	c.SetOut(0, sequenceElem(c, 0))
	return nil
}

// Run implements ir.Operator.
func (op *SequenceAt) Run(c *ir.Call) error {
	s, err := sequenceIn(c, 0)
	if err != nil {
		return err
	}
	p, err := sequencePosition(c.Tensor(1), len(s.Items), false)
	if err != nil {
		return err
	}
	return moveValue(c, 0, s.Items[p])
}
