package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
)

// BitwiseNot inverts the bits of each integer
// (https://onnx.ai/onnx/operators/onnx__BitwiseNot.html).
type BitwiseNot struct{ kit.SameTypeAndShape }

var _ = kit.Register(&kit.Def{Name: "BitwiseNot", Since: kit.Versions{18}, In: "X:T", Out: "Y:T", Types: "T: @int",
	Elementwise: true, Build: kit.WithoutAttrs[BitwiseNot]})

var bitwiseNotLoops = elementwise.SameBits(bitwiseNotOf[int8](), bitwiseNotOf[int16](), bitwiseNotOf[int32](),
	bitwiseNotOf[int64]())

func bitwiseNotOf[T kit.IntNumber]() *elementwise.Loop {
	return elementwise.WithWords(elementwise.Loop1(bitwiseNotLoop[T]), elementwise.InvertWords)
}

// Run implements [ir.Operator].
func (*BitwiseNot) Run(c *ir.Call) error {
	return elementwise.MapTable(c, bitwiseNotLoops, kit.GrainCheap)
}

func bitwiseNotLoop[T kit.IntNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = ^x
	}
}
