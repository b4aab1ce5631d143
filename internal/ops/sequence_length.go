package ops

import "github.com/onward-ml/onward/internal/ir"

// SequenceLength returns the number of items of a sequence
// (https://onnx.ai/onnx/operators/onnx__SequenceLength.html).
type SequenceLength struct{}

var _ = register(Def{Name: "SequenceLength", Since: []int{11},
	In: "input_sequence:seq(T)", Out: "length:int64", Types: seqTypes,
	Build: simple(func(a *Attrs, opset int) Operator { return &SequenceLength{} })})

// Infer implements ir.Operator.
func (op *SequenceLength) Infer(c *ir.InferContext) error {
	setShape(c, 0, tensorInt64, []ir.Dim{})
	return nil
}

// Run implements ir.Operator.
func (op *SequenceLength) Run(c *ir.Call) error {
	s, err := sequenceIn(c, 0)
	if err != nil {
		return err
	}
	return outInt64s(c, 0, []int{len(s.Items)})
}
