package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
)

// BitwiseNot inverts the bits of each integer
// (https://onnx.ai/onnx/operators/onnx__BitwiseNot.html).
type BitwiseNot struct{ kit.SameTypeAndShape }

var _ = kit.Register(&kit.Def{Name: "BitwiseNot", Since: kit.Versions{18}, In: "X:T", Out: "Y:T", Types: "T: @int",
	Elementwise: true, Build: kit.WithoutAttrs[BitwiseNot]})

var bitwiseNotLoops = kit.SameBits(bitwiseNotOf[int8](), bitwiseNotOf[int16](), bitwiseNotOf[int32](), bitwiseNotOf[int64]())

func bitwiseNotOf[T kit.IntNumber]() *kit.ElementLoop {
	return kit.WithWords(kit.Loop1(bitwiseNotLoop[T]), kit.InvertWords)
}

// Run implements [ir.Operator].
func (*BitwiseNot) Run(c *ir.Call) error { return kit.MapTable(c, bitwiseNotLoops, kit.GrainCheap) }

func bitwiseNotLoop[T kit.IntNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = ^x
	}
}
