package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
)

// Sinh computes the hyperbolic sine of each element
// (https://onnx.ai/onnx/operators/onnx__Sinh.html).
type Sinh struct{ kit.SameTypeAndShape }

var _ = kit.Register(&kit.Def{Name: "Sinh", Since: kit.Versions{9, 22}, In: "input:T", Out: "output:T",
	Types:       "T: @float",
	Elementwise: true,
	Build:       kit.WithoutAttrs[Sinh],
	Gradient: gradient.Derivative(func(b *gradient.Builder, x, y, g string) string {
		return b.Op("Mul", g, b.Op("Cosh", x))
	})})

var sinhLoops = elementwise.FloatLoops(sinhLoop[float32], sinhLoop[float64], vec.SinhF32)

// Run implements [ir.Operator].
func (*Sinh) Run(c *ir.Call) error { return elementwise.MapTable(c, sinhLoops, kit.GrainCostly) }

func sinhLoop[T kit.FloatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = T(math.Sinh(float64(x)))
	}
}
