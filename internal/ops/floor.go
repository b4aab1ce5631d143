package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
)

// Floor rounds each element down to an integer
// (https://onnx.ai/onnx/operators/onnx__Floor.html).
type Floor struct{ kit.SameTypeAndShape }

var _ = kit.Register(&kit.Def{Name: "Floor", Since: kit.Versions{1, 6, 13}, In: "X:T", Out: "Y:T", Types: "T: @float",
	Elementwise: true,
	Build:       kit.WithoutAttrs[Floor],
	Gradient:    gradient.None})

var floorLoops = elementwise.FloatLoops(floorLoop[float32], floorLoop[float64], vec.FloorF32)

// Run implements [ir.Operator].
func (*Floor) Run(c *ir.Call) error { return elementwise.MapTable(c, floorLoops, kit.GrainCheap) }

func floorLoop[T kit.FloatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = T(math.Floor(float64(x)))
	}
}
