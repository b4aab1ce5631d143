package msft

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
)

// QLinearLeakyRelu multiplies the negative elements of a quantized tensor by
// Alpha
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QLinearLeakyRelu).
type QLinearLeakyRelu struct {
	kit.SameTypeAndShape
	Alpha float32
}

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "QLinearLeakyRelu", Since: kit.Versions{1},
	In: qLinearUnaryIn, Out: "Y:T",
	Class: kit.ClassActivation,
	Types: "T: " + byteTypes,
	Build: func(a *kit.Attrs, opset int) kit.Operator { return &QLinearLeakyRelu{Alpha: a.Float("alpha", 0.01)} }})

// Run implements [ir.Operator].
func (o *QLinearLeakyRelu) Run(c *ir.Call) error {
	return runQLinearUnary(c, func(x float32) float32 {
		if x < 0 {
			return x * o.Alpha
		}
		return x
	})
}
