package msft

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
)

// SampleOp returns its input. It is ONNX Runtime's example of a contrib operator
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md).
type SampleOp struct{ kit.SameTypeAndShape }

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "SampleOp", Since: kit.Versions{1},
	In: "X:T", Out: "Y:T",
	Class: kit.ClassArithmetic,
	Types: "T: uint32 uint64 int32 int64 float16 float double",
	Build: kit.WithoutAttrs[SampleOp]})

// ViewOf implements [ir.View].
func (*SampleOp) ViewOf() int { return 0 }

// Run implements [ir.Operator].
func (*SampleOp) Run(c *ir.Call) error {
	c.Set(0, c.Tensor(0))
	return nil
}
