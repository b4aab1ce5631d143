package ops

import "github.com/onward-ml/onward/internal/ir"

// QLinearAdd adds quantized tensors
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QLinearAdd).
type QLinearAdd struct{ qLinearBinary }

var _ = register(Def{Domain: DomainMicrosoft, Name: "QLinearAdd", Since: []int{1}, In: qLinearBinaryIn, Out: "C:T",
	Types: Types{"T": byteTypes},
	Build: withoutAttrs(&QLinearAdd{})})

// Run adds in units of the output's scale.
func (*QLinearAdd) Run(c *ir.Call) error {
	return runQLinearBinary(c, addLoop[float32], func(a, b, y *byteQuant) {
		a.scale /= y.scale
		b.scale /= y.scale
	}, addBytes)
}
