package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
)

// Log computes the natural logarithm of each element
// (https://onnx.ai/onnx/operators/onnx__Log.html).
type Log struct{ kit.SameTypeAndShape }

var _ = kit.Register(&kit.Def{Name: "Log", Since: kit.Versions{1, 6, 13}, In: "input:T", Out: "output:T", Types: "T: @float",
	Elementwise: true,
	Build:       kit.WithoutAttrs[Log],
	Gradient:    kit.Derivative(func(b *kit.GradientBuilder, x, y, g string) string { return b.Op("Div", g, x) })})

var logLoops = kit.FloatLoops(logLoop[float32], logLoop[float64], vec.LogF32)

// Run implements [ir.Operator].
func (*Log) Run(c *ir.Call) error { return kit.MapTable(c, logLoops, kit.GrainCostly) }

func logLoop[T kit.FloatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = T(math.Log(float64(x)))
	}
}
