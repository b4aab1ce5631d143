package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
)

// Sigmoid computes 1/(1+exp(−x)) of each element
// (https://onnx.ai/onnx/operators/onnx__Sigmoid.html).
type Sigmoid struct{ sameTypeAndShape }

var _ = register(Def{Name: "Sigmoid", Since: []int{1, 6, 13}, In: "X:T", Out: "Y:T", Types: Types{"T": "@float"},
	Build: withoutAttrs(&Sigmoid{})})

var sigmoidLoops = floatLoops(sigmoidLoop[float32], sigmoidLoop[float64], vec.SigmoidF32)

// Run implements [ir.Operator].
func (*Sigmoid) Run(c *ir.Call) error { return mapTable(c, sigmoidLoops, grainCostly) }

func sigmoidLoop[T floatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = T(1 / (1 + math.Exp(-float64(x))))
	}
}
