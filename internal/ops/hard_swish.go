package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
)

// HardSwish computes x·max(0, min(1, x/6+1/2)) of each element
// (https://onnx.ai/onnx/operators/onnx__HardSwish.html).
type HardSwish struct{ kit.SameTypeAndShape }

var _ = kit.Register(&kit.Def{Name: "HardSwish", Since: kit.Versions{14, 22}, In: "X:T", Out: "Y:T", Types: "T: @float",
	Elementwise: true, Vector: kit.Vectorize[*HardSwish](vec.HardSwishF32),
	Build: kit.WithoutAttrs[HardSwish],
	Gradient: gradient.DecomposedFunction(func(b *gradient.Builder, n *gradient.Node, x string) string {
		return b.Op("Mul", x, b.Clamped(x, 1.0/6, 0.5))
	})})

var hardSwishLoops = elementwise.FloatLoops(hardSwishLoop[float32], hardSwishLoop[float64], vec.HardSwishF32)

// Run implements [ir.Operator].
func (*HardSwish) Run(c *ir.Call) error {
	return elementwise.MapTable(c, hardSwishLoops, kit.GrainCheap)
}

func hardSwishLoop[T kit.FloatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = x * max(0, min(1, x/6+0.5))
	}
}
