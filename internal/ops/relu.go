package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
)

// Relu computes max(0, x) of each element
// (https://onnx.ai/onnx/operators/onnx__Relu.html).
type Relu struct{ kit.SameTypeAndShape }

var _ = kit.Register(&kit.Def{Name: "Relu", Since: kit.Versions{1, 6, 13, 14}, In: "X:T", Out: "Y:T",
	Types:       "T: @signed @float",
	Elementwise: true, Vector: kit.Vectorize[*Relu](vec.ReluF32),
	Build: kit.WithoutAttrs[Relu],
	Gradient: gradient.Derivative(func(b *gradient.Builder, x, y, g string) string {
		return b.Op("Mul", g, b.Step(0, x))
	})})

var reluLoops = elementwise.LoopsOf(
	elementwise.WithConstant(elementwise.Loop1(reluLoop[int8]), 0, vec.MaxI8), elementwise.Loop1(reluLoop[int16]),
	elementwise.WithConstant(elementwise.Loop1(reluLoop[int32]), 0, vec.MaxI32),
	elementwise.WithConstant(elementwise.Loop1(reluLoop[int64]), 0, vec.MaxI64),
	elementwise.WithUnary(elementwise.Loop1(reluLoop[float32]), vec.ReluF32),
	elementwise.WithConstant(elementwise.Loop1(reluLoop[float64]), 0, vec.MaxF64))

// Run implements [ir.Operator].
func (*Relu) Run(c *ir.Call) error { return elementwise.MapTable(c, reluLoops, kit.GrainCheap) }

func reluLoop[T kit.SignedNumber | kit.FloatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = max(x, 0)
	}
}
