package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
)

// Abs returns the absolute value of each element. The least integer of a type is unchanged, since
// its magnitude is not representable (https://onnx.ai/onnx/operators/onnx__Abs.html).
type Abs struct{ kit.SameTypeAndShape }

var _ = kit.Register(&kit.Def{Name: "Abs", Since: kit.Versions{1, 6, 13}, In: "X:T", Out: "Y:T", Types: "T: @number",
	Elementwise: true,
	Build:       kit.WithoutAttrs[Abs],
	Gradient: gradient.Derivative(func(b *gradient.Builder, x, y, g string) string {
		return b.Op("Mul", g, b.Op("Sign", x))
	})})

var absLoops = elementwise.LoopsOf(
	elementwise.WithTable(elementwise.Loop1(absSigned[int8])), elementwise.Loop1(absSigned[int16]),
	elementwise.WithKernel1(elementwise.Loop1(absSigned[int32]), vec.AbsI32),
	elementwise.WithKernel1(elementwise.Loop1(absSigned[int64]), vec.AbsI64),
	elementwise.Loop1(copyLoop[uint8]), elementwise.Loop1(copyLoop[uint16]), elementwise.Loop1(copyLoop[uint32]),
	elementwise.Loop1(copyLoop[uint64]),
	elementwise.WithUnary(elementwise.Loop1(absFloat[float32]), vec.AbsF32),
	elementwise.WithKernel1(elementwise.Loop1(absFloat[float64]), vec.AbsF64))

// Run implements [ir.Operator].
func (*Abs) Run(c *ir.Call) error { return elementwise.MapTable(c, absLoops, kit.GrainCheap) }

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
