package ops

import "github.com/onward-ml/onward/internal/ir"

// QLinearLeakyRelu multiplies the negative elements of a quantized tensor by
// Alpha
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QLinearLeakyRelu).
type QLinearLeakyRelu struct {
	sameTypeAndShape
	Alpha float32
}

var _ = register(Def{Domain: DomainMicrosoft, Name: "QLinearLeakyRelu", Since: []int{1}, In: qLinearUnaryIn, Out: "Y:T",
	Types: Types{"T": byteTypes},
	Build: simple(func(a *Attrs, opset int) Operator { return &QLinearLeakyRelu{Alpha: a.Float("alpha", 0.01)} })})

// Run implements [ir.Operator].
func (o *QLinearLeakyRelu) Run(c *ir.Call) error {
	return runQLinearUnary(c, func(x float32) float32 {
		if x < 0 {
			return x * o.Alpha
		}
		return x
	})
}
