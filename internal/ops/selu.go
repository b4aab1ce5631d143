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

// Selu computes gamma·x where x > 0 and gamma·alpha·(exp(x)−1) elsewhere
// (https://onnx.ai/onnx/operators/onnx__Selu.html).
type Selu struct {
	kit.SameTypeAndShape
	Alpha, Gamma float64
	loops        elementwise.Table
}

var _ = kit.Register(&kit.Def{Name: "Selu", Since: kit.Versions{1, 6, 22}, In: "X:T", Out: "Y:T", Types: "T: @float",
	Elementwise: true, Build: func(a *kit.Attrs, opset int) kit.Operator {
		kit.IgnoreConsumed(a, opset)
		alpha, gamma := float32(1.67326319217681884765625), float32(1.05070102214813232421875)
		if opset < 6 {
			alpha, gamma = 1.6732, 1.0507
		}
		o := &Selu{Alpha: float64(a.Float("alpha", alpha)), Gamma: float64(a.Float("gamma", gamma))}
		o.loops = elementwise.FloatLoops(
			func(dst, src []float32) { seluLoop(dst, src, o.Alpha, o.Gamma) },
			func(dst, src []float64) { seluLoop(dst, src, o.Alpha, o.Gamma) },
			elementwise.InPieces(func(l cpu.Level, dst, x []float32) {
				vec.EluF32(l, dst, x, float32(o.Alpha))
				vec.MulScalarF32(l, dst, dst, float32(o.Gamma))
			}))
		return o
	},
	Gradient: gradient.DecomposedFunction(func(b *gradient.Builder, n *gradient.Node, x string) string {
		alpha, gamma := n.Attrs.Float("alpha", 1.67326319217681884765625),
			n.Attrs.Float("gamma", 1.05070102214813232421875)
		return b.Scaled(gamma, b.Op("Add", b.Op("Relu", x), b.Scaled(alpha, b.Plus(b.Op("Exp", b.Negative(x)), -1))))
	})})

// Run implements [ir.Operator].
func (o *Selu) Run(c *ir.Call) error { return elementwise.MapTable(c, o.loops, kit.GrainCostly) }

func seluLoop[T kit.FloatNumber](dst, src []T, alpha, gamma float64) {
	dst = dst[:len(src)]
	for i, x := range src {
		y := gamma * float64(x)
		if x <= 0 {
			y = gamma * alpha * math.Expm1(float64(x))
		}
		dst[i] = T(y)
	}
}
