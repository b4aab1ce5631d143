package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
)

// Tanh computes the hyperbolic tangent of each element
// (https://onnx.ai/onnx/operators/onnx__Tanh.html).
type Tanh struct{ sameTypeAndShape }

var _ = register(Def{Name: "Tanh", Since: []int{1, 6, 13}, In: "input:T", Out: "output:T", Types: Types{"T": "@float"},
	Build: withoutAttrs(&Tanh{})})

var tanhLoops = floatLoops(tanhLoop[float32], tanhLoop[float64], vec.TanhF32)

// Run implements [ir.Operator].
func (*Tanh) Run(c *ir.Call) error { return mapTable(c, tanhLoops, grainCostly) }

func tanhLoop[T floatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = T(math.Tanh(float64(x)))
	}
}
