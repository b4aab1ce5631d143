package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
)

// Ceil rounds each element up to an integer
// (https://onnx.ai/onnx/operators/onnx__Ceil.html).
type Ceil struct{ kit.SameTypeAndShape }

var _ = kit.Register(&kit.Def{Name: "Ceil", Since: kit.Versions{1, 6, 13}, In: "X:T", Out: "Y:T", Types: "T: @float",
	Elementwise: true,
	Build:       kit.WithoutAttrs[Ceil],
	Gradient:    gradient.None})

var ceilLoops = elementwise.FloatLoops(ceilLoop[float32], ceilLoop[float64], vec.CeilF32)

// Run implements [ir.Operator].
func (*Ceil) Run(c *ir.Call) error { return elementwise.MapTable(c, ceilLoops, kit.GrainCheap) }

func ceilLoop[T kit.FloatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = T(math.Ceil(float64(x)))
	}
}
