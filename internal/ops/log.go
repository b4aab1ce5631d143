package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
)

// Log computes the natural logarithm of each element
// (https://onnx.ai/onnx/operators/onnx__Log.html).
type Log struct{ sameTypeAndShape }

var _ = register(Def{Name: "Log", Since: []int{1, 6, 13}, In: "input:T", Out: "output:T", Types: Types{"T": "@float"},
	Build: withoutAttrs(&Log{})})

var logLoops = floatLoops(logLoop[float32], logLoop[float64], vec.LogF32)

// Run implements [ir.Operator].
func (*Log) Run(c *ir.Call) error { return mapTable(c, logLoops, grainCostly) }

func logLoop[T floatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = T(math.Log(float64(x)))
	}
}
