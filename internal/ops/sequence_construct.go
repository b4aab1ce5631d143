package ops

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// SequenceConstruct returns a sequence of its inputs
// (https://onnx.ai/onnx/operators/onnx__SequenceConstruct.html).
type SequenceConstruct struct{}

var _ = kit.Register(&kit.Def{Name: "SequenceConstruct", Since: kit.Versions{11},
	In: "inputs:T+", Out: "output_sequence:seq(T)", Types: "T: @all",
	Build: func(a *kit.Attrs, opset int) kit.Operator { return &SequenceConstruct{} }})

// Infer implements ir.Operator.
func (op *SequenceConstruct) Infer(c *ir.InferContext) error {
	t := c.Type(0)
	for i := 1; i < c.NumIn(); i++ {
		w, err := widenBranch(t, c.Type(i))
		if err != nil {
			return fail.Errorf("inputs 0 and %d: %w", i, err)
		}
		t = w
	}
	c.SetOut(0, ir.SequenceOf(t))
	return nil
}

// Run implements ir.Operator.
func (op *SequenceConstruct) Run(c *ir.Call) error {
	items := append([]tensor.Value{}, c.In[:c.NumIn()]...)
	if len(items) == 0 || items[0] == nil {
		return fail.Errorf("input 0 is missing")
	}
	s, err := tensor.NewSequence(items[0].Type(), items...)
	if err != nil {
		return err
	}
	c.Set(0, s)
	return nil
}
