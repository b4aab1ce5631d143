package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
)

// Abs computes the absolute value of each element; the least integer of a type
// stays as it is, for want of a positive counterpart
// (https://onnx.ai/onnx/operators/onnx__Abs.html).
type Abs struct{ sameTypeAndShape }

var _ = register(Def{Name: "Abs", Since: []int{1, 6, 13}, In: "X:T", Out: "Y:T", Types: Types{"T": "@number"},
	Build: withoutAttrs(&Abs{})})

var absLoops = loopsOf(
	loop1(absSigned[int8]), loop1(absSigned[int16]), loop1(absSigned[int32]), loop1(absSigned[int64]),
	loop1(copyLoop[uint8]), loop1(copyLoop[uint16]), loop1(copyLoop[uint32]), loop1(copyLoop[uint64]),
	withUnary(loop1(absFloat[float32]), vec.AbsF32), loop1(absFloat[float64]))

// Run implements [ir.Operator].
func (*Abs) Run(c *ir.Call) error { return mapTable(c, absLoops, grainCheap) }

func absSigned[T signedNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		if x < 0 {
			x = -x
		}
		dst[i] = x
	}
}

func absFloat[T floatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = T(math.Abs(float64(x)))
	}
}

func copyLoop[T realNumber](dst, src []T) { copy(dst, src) }
