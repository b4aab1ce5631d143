package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// Log computes the natural logarithm of each element
// (https://onnx.ai/onnx/operators/onnx__Log.html).
type Log struct{ kit.SameTypeAndShape }

var _ = kit.Register(&kit.Def{Name: "Log", Since: kit.Versions{1, 6, 13}, In: "input:T", Out: "output:T", Types: "T: @float",
	Elementwise: true,
	Build:       kit.WithoutAttrs[Log],
	Gradient:    kit.Derivative(func(b *kit.GradientBuilder, x, y, g string) string { return b.Op("Div", g, x) })})

var logLoops = kit.FloatLoops(logLoop[float32], logLoop[float64], vec.LogF32).WithFast(tensor.TypeFloat64, func(dst []byte, in *[3][]byte) {
	vec.LogF64(memory.FromRaw[float64](dst), memory.FromRaw[float64](in[0]))
})

// Run implements [ir.Operator].
func (*Log) Run(c *ir.Call) error { return kit.MapTable(c, logLoops, kit.GrainCostly) }

func logLoop[T kit.FloatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = T(math.Log(float64(x)))
	}
}
