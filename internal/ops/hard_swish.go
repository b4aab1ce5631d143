package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
)

// HardSwish computes x·max(0, min(1, x/6+1/2)) of each element
// (https://onnx.ai/onnx/operators/onnx__HardSwish.html).
type HardSwish struct{ sameTypeAndShape }

var _ = register(Def{Name: "HardSwish", Since: []int{14, 22}, In: "X:T", Out: "Y:T", Types: Types{"T": "@float"},
	Build: withoutAttrs(&HardSwish{})})

var hardSwishLoops = floatLoops(hardSwishLoop[float32], hardSwishLoop[float64], vec.HardSwishF32)

// Run implements [ir.Operator].
func (*HardSwish) Run(c *ir.Call) error { return mapTable(c, hardSwishLoops, grainCheap) }

func hardSwishLoop[T floatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = x * max(0, min(1, x/6+0.5))
	}
}
