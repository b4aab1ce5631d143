package msft

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/quant"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
)

// QLinearMul multiplies quantized tensors
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QLinearMul).
type QLinearMul struct{ qLinearBinary }

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "QLinearMul", Since: kit.Versions{1},
	In: qLinearBinaryIn, Out: "C:T",
	Class: kit.ClassArithmetic,
	Types: "T: " + byteTypes,
	Build: kit.WithoutAttrs[QLinearMul]})

// Run multiplies integers, then multiplies by the combined scale. Like ONNX Runtime it
// rounds after adding the zero point, which changes the result of ties.
func (*QLinearMul) Run(c *ir.Call) error {
	var scale, zero float32
	return runQLinearBinary(c, func(dst, a, b []float32) {
		elementwise.MulLoop(dst, a, b)
		for i := range dst {
			dst[i] = float32(math.RoundToEven(float64(dst[i]*scale+zero))) - zero
		}
	}, func(a, b, y *byteQuant) {
		scale, zero = a.scale*b.scale/y.scale, float32(y.zero)
		a.scale, b.scale = 1, 1
	}, func(dst, a, b []byte, qa, qb, y *byteQuant) {
		quant.Mul(cpu.Active(), dst, a, b, y.signed, qa.zero, qb.zero, scale, y.zero)
	})
}
