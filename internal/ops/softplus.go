package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
)

// Softplus computes ln(exp(x)+1) of each element
// (https://onnx.ai/onnx/operators/onnx__Softplus.html).
type Softplus struct{ sameTypeAndShape }

var _ = register(Def{Name: "Softplus", Since: []int{1, 22}, In: "X:T", Out: "Y:T", Types: Types{"T": "@float"},
	Build: withoutAttrs(&Softplus{})})

var softplusLoops = floatLoops(softplusLoop[float32], softplusLoop[float64], vec.SoftplusF32)

// Run implements [ir.Operator].
func (*Softplus) Run(c *ir.Call) error { return mapTable(c, softplusLoops, grainCostly) }

func softplusLoop[T floatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = T(softplus(float64(x)))
	}
}

// softplus is ln(exp(x)+1) without overflow for large x.
func softplus(x float64) float64 { return max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }
