package ops

import "github.com/onward-ml/onward/internal/ir"

// SampleOp passes its input on: ONNX Runtime's example of a contrib operator
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md).
type SampleOp struct{ sameTypeAndShape }

var _ = register(Def{Domain: DomainMicrosoft, Name: "SampleOp", Since: []int{1}, In: "X:T", Out: "Y:T",
	Types: Types{"T": "uint32 uint64 int32 int64 float16 float double"},
	Build: withoutAttrs(&SampleOp{})})

// ViewOf implements [ir.View].
func (*SampleOp) ViewOf() int { return 0 }

// Run implements [ir.Operator].
func (*SampleOp) Run(c *ir.Call) error {
	c.Set(0, c.Tensor(0))
	return nil
}
