package msft

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
)

// QLinearAdd adds quantized tensors
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QLinearAdd).
type QLinearAdd struct{ qLinearBinary }

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "QLinearAdd", Since: kit.Versions{1},
	In: qLinearBinaryIn, Out: "C:T",
	Class: kit.ClassArithmetic,
	Types: "T: " + byteTypes,
	Build: kit.WithoutAttrs[QLinearAdd]})

// Run adds in multiples of the output's scale.
func (*QLinearAdd) Run(c *ir.Call) error {
	return runQLinearBinary(c, elementwise.AddLoop[float32], func(a, b, y *byteQuant) {
		a.scale /= y.scale
		b.scale /= y.scale
	}, addBytes)
}
