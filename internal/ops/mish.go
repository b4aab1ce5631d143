package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
)

// Mish computes x·tanh(ln(exp(x)+1)) of each element
// (https://onnx.ai/onnx/operators/onnx__Mish.html).
type Mish struct{ sameTypeAndShape }

var _ = register(Def{Name: "Mish", Since: []int{18, 22}, In: "X:T", Out: "Y:T", Types: Types{"T": "@float"},
	Build: withoutAttrs(&Mish{})})

var mishLoops = floatLoops(mishLoop[float32], mishLoop[float64], vec.MishF32)

// Run implements [ir.Operator].
func (*Mish) Run(c *ir.Call) error { return mapTable(c, mishLoops, grainCostly) }

func mishLoop[T floatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = T(gated(float64(x), math.Tanh(softplus(float64(x)))))
	}
}
