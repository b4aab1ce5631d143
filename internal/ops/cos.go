package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
)

// Cos computes the cosine of each element, given in radians
// (https://onnx.ai/onnx/operators/onnx__Cos.html).
type Cos struct{ sameTypeAndShape }

var _ = register(Def{Name: "Cos", Since: []int{7, 22}, In: "input:T", Out: "output:T", Types: Types{"T": "@float"},
	Build: withoutAttrs(&Cos{})})

var cosLoops = floatLoops(cosLoop[float32], cosLoop[float64], vec.CosF32)

// Run implements [ir.Operator].
func (*Cos) Run(c *ir.Call) error { return mapTable(c, cosLoops, grainCostly) }

func cosLoop[T floatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = T(math.Cos(float64(x)))
	}
}
