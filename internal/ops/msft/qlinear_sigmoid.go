package msft

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
)

// QLinearSigmoid computes 1/(1 + exp(−x)) of a quantized tensor
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QLinearSigmoid).
type QLinearSigmoid struct{ kit.SameTypeAndShape }

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "QLinearSigmoid", Since: kit.Versions{1},
	In: qLinearUnaryIn, Out: "Y:T",
	Class: kit.ClassActivation,
	Types: "T: " + byteTypes,
	Build: kit.WithoutAttrs[QLinearSigmoid]})

// Run implements [ir.Operator].
func (*QLinearSigmoid) Run(c *ir.Call) error {
	return runQLinearUnary(c, func(x float32) float32 { return float32(1 / (1 + math.Exp(-float64(x)))) })
}
