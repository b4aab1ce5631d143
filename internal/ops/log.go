package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
)

// Log computes the natural logarithm of each element
// (https://onnx.ai/onnx/operators/onnx__Log.html).
type Log struct{ kit.SameTypeAndShape }

var _ = kit.Register(&kit.Def{Name: "Log", Since: kit.Versions{1, 6, 13}, In: "input:T", Out: "output:T",
	Types:       "T: @float",
	Elementwise: true,
	Build:       kit.WithoutAttrs[Log],
	Gradient:    gradient.Derivative(func(b *gradient.Builder, x, y, g string) string { return b.Op("Div", g, x) })})

var logLoops = elementwise.LoopsOf(elementwise.WithUnary(elementwise.Loop1(logLoop[float32]), vec.LogF32),
	elementwise.WithKernel1(elementwise.Loop1(logLoop[float64]), vec.LogF64))

// Run implements [ir.Operator].
func (*Log) Run(c *ir.Call) error { return elementwise.MapTable(c, logLoops, kit.GrainCostly) }

func logLoop[T kit.FloatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = T(vec.Log(float64(x)))
	}
}
