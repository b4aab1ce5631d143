package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/move"
)

// SequenceAt returns the item of a sequence at a position. Negative positions count from the end
// (https://onnx.ai/onnx/operators/onnx__SequenceAt.html).
type SequenceAt struct{}

var _ = kit.Register(&kit.Def{Name: "SequenceAt", Since: kit.Versions{11},
	In: "input_sequence:seq(T), position:I", Out: "tensor:T", Types: seqTypes,
	Build: func(a *kit.Attrs, opset int) kit.Operator { return &SequenceAt{} }})

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
	return move.Value(c, 0, s.Items[p])
}
