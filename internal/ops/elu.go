package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
)

// Elu computes x where x ≥ 0 and alpha·(exp(x)−1) elsewhere
// (https://onnx.ai/onnx/operators/onnx__Elu.html).
type Elu struct {
	kit.SameTypeAndShape
	Alpha float64
	loops elementwise.Table
}

var _ = kit.Register(&kit.Def{Name: "Elu", Since: kit.Versions{1, 6, 22}, In: "X:T", Out: "Y:T", Types: "T: @float",
	Elementwise: true, Build: func(a *kit.Attrs, opset int) kit.Operator {
		kit.IgnoreConsumed(a, opset)
		o := &Elu{Alpha: float64(a.Float("alpha", 1))}
		o.loops = elementwise.FloatLoops(
			func(dst, src []float32) { eluLoop(dst, src, o.Alpha) },
			func(dst, src []float64) { eluLoop(dst, src, o.Alpha) },
			func(l cpu.Level, dst, x []float32) { vec.EluF32(l, dst, x, float32(o.Alpha)) })
		return o
	},
	Gradient: gradient.DecomposedFunction(func(b *gradient.Builder, n *gradient.Node, x string) string {
		return b.Op("Add", b.Op("Relu", x), b.Scaled(n.Attrs.Float("alpha", 1), b.Plus(b.Op("Exp", b.Negative(x)), -1)))
	})})

// Run implements [ir.Operator].
func (o *Elu) Run(c *ir.Call) error { return elementwise.MapTable(c, o.loops, kit.GrainCostly) }

func eluLoop[T kit.FloatNumber](dst, src []T, alpha float64) {
	dst = dst[:len(src)]
	for i, x := range src {
		y := x
		if x < 0 {
			y = T(alpha * math.Expm1(float64(x)))
		}
		dst[i] = y
	}
}
