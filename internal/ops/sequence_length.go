package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
)

// SequenceLength returns the number of items of a sequence
// (https://onnx.ai/onnx/operators/onnx__SequenceLength.html).
type SequenceLength struct{}

var _ = kit.Register(&kit.Def{Name: "SequenceLength", Since: kit.Versions{11},
	In: "input_sequence:seq(T)", Out: "length:int64", Types: seqTypes,
	Build: func(a *kit.Attrs, opset int) kit.Operator { return &SequenceLength{} }})

// Infer implements ir.Operator.
func (op *SequenceLength) Infer(c *ir.InferContext) error {
	kit.SetShape(c, 0, kit.TensorInt64, []ir.Dim{})
	return nil
}

// Run implements ir.Operator.
func (op *SequenceLength) Run(c *ir.Call) error {
	s, err := sequenceIn(c, 0)
	if err != nil {
		return err
	}
	return kit.OutInt64s(c, 0, []int{len(s.Items)})
}
