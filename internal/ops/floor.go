package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
)

// Floor rounds each element down to an integer
// (https://onnx.ai/onnx/operators/onnx__Floor.html).
type Floor struct{ sameTypeAndShape }

var _ = register(Def{Name: "Floor", Since: []int{1, 6, 13}, In: "X:T", Out: "Y:T", Types: Types{"T": "@float"},
	Build: withoutAttrs(&Floor{})})

var floorLoops = floatLoops(floorLoop[float32], floorLoop[float64], vec.FloorF32)

// Run implements [ir.Operator].
func (*Floor) Run(c *ir.Call) error { return mapTable(c, floorLoops, grainCheap) }

func floorLoop[T floatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = T(math.Floor(float64(x)))
	}
}
