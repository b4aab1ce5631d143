package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
)

// QLinearSigmoid is 1/(1 + exp(−x)) of a quantized tensor
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QLinearSigmoid).
type QLinearSigmoid struct{ sameTypeAndShape }

var _ = register(Def{Domain: DomainMicrosoft, Name: "QLinearSigmoid", Since: []int{1}, In: qLinearUnaryIn, Out: "Y:T",
	Types: Types{"T": byteTypes},
	Build: withoutAttrs(&QLinearSigmoid{})})

// Run implements [ir.Operator].
func (*QLinearSigmoid) Run(c *ir.Call) error {
	return runQLinearUnary(c, func(x float32) float32 { return float32(1 / (1 + math.Exp(-float64(x)))) })
}
