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

// Celu computes max(0, x) + min(0, alpha·(exp(x/alpha)−1)) of each element
// (https://onnx.ai/onnx/operators/onnx__Celu.html).
type Celu struct {
	kit.SameTypeAndShape
	Alpha float64
	loops elementwise.Table
}

var _ = kit.Register(&kit.Def{Name: "Celu", Since: kit.Versions{12, 28}, In: "X:T", Out: "Y:T", Types: "T: @float",
	Elementwise: true, Build: func(a *kit.Attrs, opset int) kit.Operator {
		kit.IgnoreConsumed(a, opset)
		o := &Celu{Alpha: float64(a.Float("alpha", 1))}
		o.loops = elementwise.FloatLoops(
			func(dst, src []float32) { celuLoop(dst, src, o.Alpha) },
			func(dst, src []float64) { celuLoop(dst, src, o.Alpha) }, o.fast())
		return o
	},
	Gradient: gradient.DecomposedFunction(func(b *gradient.Builder, n *gradient.Node, x string) string {
		alpha := n.Attrs.Float("alpha", 1)
		exp := b.Op("Exp", b.Op("Div", b.Negative(x), b.Filled(alpha, x)))
		return b.Op("Add", b.Op("Relu", x), b.Scaled(alpha, b.Plus(exp, -1)))
	})})

// Run implements [ir.Operator].
func (o *Celu) Run(c *ir.Call) error { return elementwise.MapTable(c, o.loops, kit.GrainCostly) }

// fast returns the vector kernel, alpha·elu(x/alpha), if alpha keeps it in the range of float32.
func (o *Celu) fast() kit.VecUnary {
	if !(o.Alpha >= 1e-2 && o.Alpha <= 1e2) {
		return nil
	}
	alpha := float32(o.Alpha)
	return elementwise.InPieces(func(l cpu.Level, dst, x []float32) {
		vec.DivScalarF32(l, dst, x, alpha)
		vec.EluF32(l, dst, dst, 1)
		vec.MulScalarF32(l, dst, dst, alpha)
	})
}

func celuLoop[T kit.FloatNumber](dst, src []T, alpha float64) {
	dst = dst[:len(src)]
	for i, x := range src {
		v := float64(x)
		dst[i] = T(max(0, v) + min(0, alpha*math.Expm1(v/alpha)))
	}
}
