package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
)

// Erf computes the error function of each element
// (https://onnx.ai/onnx/operators/onnx__Erf.html).
type Erf struct{ kit.SameTypeAndShape }

var _ = kit.Register(&kit.Def{Name: "Erf", Since: kit.Versions{9, 13}, In: "input:T", Out: "output:T",
	Types:       "T: @float",
	Elementwise: true,
	Build:       kit.WithoutAttrs[Erf],
	Gradient: gradient.Derivative(func(b *gradient.Builder, x, y, g string) string {
		return b.Scaled(1.1283791670955126, b.Op("Mul", g, b.Op("Exp", b.Op("Neg", b.Op("Mul", x, x)))))
	})})

var erfLoops = elementwise.FloatLoops(erfLoop[float32], erfLoop[float64], vec.ErfF32)

// Run implements [ir.Operator].
func (*Erf) Run(c *ir.Call) error { return elementwise.MapTable(c, erfLoops, kit.GrainCostly) }

func erfLoop[T kit.FloatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = T(math.Erf(float64(x)))
	}
}
