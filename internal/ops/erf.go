package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
)

// Erf computes the error function of each element
// (https://onnx.ai/onnx/operators/onnx__Erf.html).
type Erf struct{ sameTypeAndShape }

var _ = register(Def{Name: "Erf", Since: []int{9, 13}, In: "input:T", Out: "output:T", Types: Types{"T": "@float"},
	Build: withoutAttrs(&Erf{})})

var erfLoops = floatLoops(erfLoop[float32], erfLoop[float64], vec.ErfF32)

// Run implements [ir.Operator].
func (*Erf) Run(c *ir.Call) error { return mapTable(c, erfLoops, grainCostly) }

func erfLoop[T floatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = T(math.Erf(float64(x)))
	}
}
