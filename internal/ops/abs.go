package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
)

// Abs returns the absolute value of each element. The least integer of a type is unchanged, since
// its magnitude is not representable (https://onnx.ai/onnx/operators/onnx__Abs.html).
type Abs struct{ kit.SameTypeAndShape }

var _ = kit.Register(&kit.Def{Name: "Abs", Since: kit.Versions{1, 6, 13}, In: "X:T", Out: "Y:T", Types: "T: @number",
	Elementwise: true,
	Build:       kit.WithoutAttrs[Abs],
	Gradient: kit.Derivative(func(b *kit.GradientBuilder, x, y, g string) string {
		return b.Op("Mul", g, b.Op("Sign", x))
	})})

var absLoops = kit.LoopsOf(
	kit.WithTable(kit.Loop1(absSigned[int8])), kit.Loop1(absSigned[int16]), kit.WithKernel1(kit.Loop1(absSigned[int32]), vec.AbsI32), kit.WithKernel1(kit.Loop1(absSigned[int64]), vec.AbsI64),
	kit.Loop1(copyLoop[uint8]), kit.Loop1(copyLoop[uint16]), kit.Loop1(copyLoop[uint32]), kit.Loop1(copyLoop[uint64]),
	kit.WithUnary(kit.Loop1(absFloat[float32]), vec.AbsF32), kit.WithKernel1(kit.Loop1(absFloat[float64]), vec.AbsF64))

// Run implements [ir.Operator].
func (*Abs) Run(c *ir.Call) error { return kit.MapTable(c, absLoops, kit.GrainCheap) }

func absSigned[T kit.SignedNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		if x < 0 {
			x = -x
		}
		dst[i] = x
	}
}

func absFloat[T kit.FloatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = T(math.Abs(float64(x)))
	}
}

func copyLoop[T kit.RealNumber](dst, src []T) { copy(dst, src) }
