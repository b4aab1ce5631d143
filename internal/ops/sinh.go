package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
)

// Sinh computes the hyperbolic sine of each element
// (https://onnx.ai/onnx/operators/onnx__Sinh.html).
type Sinh struct{ sameTypeAndShape }

var _ = register(Def{Name: "Sinh", Since: []int{9, 22}, In: "input:T", Out: "output:T", Types: Types{"T": "@float"},
	Build: withoutAttrs(&Sinh{})})

var sinhLoops = floatLoops(sinhLoop[float32], sinhLoop[float64], vec.SinhF32)

// Run implements [ir.Operator].
func (*Sinh) Run(c *ir.Call) error { return mapTable(c, sinhLoops, grainCostly) }

func sinhLoop[T floatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = T(math.Sinh(float64(x)))
	}
}
