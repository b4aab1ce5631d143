package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
)

// Round rounds each element to the nearest integer, ties to even
// (https://onnx.ai/onnx/operators/onnx__Round.html).
type Round struct{ kit.SameTypeAndShape }

var _ = kit.Register(&kit.Def{Name: "Round", Since: kit.Versions{11, 22}, In: "X:T", Out: "Y:T", Types: "T: @float",
	Elementwise: true,
	Build:       kit.WithoutAttrs[Round],
	Gradient:    gradient.None})

var roundLoops = elementwise.FloatLoops(roundLoop[float32], roundLoop[float64], vec.RoundEvenF32)

// Run implements [ir.Operator].
func (*Round) Run(c *ir.Call) error { return elementwise.MapTable(c, roundLoops, kit.GrainCheap) }

func roundLoop[T kit.FloatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = T(math.RoundToEven(float64(x)))
	}
}
