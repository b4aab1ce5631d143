package ops

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/tensor"
)

// Sign returns −1, 0 or 1 for each element; NaN propagates
// (https://onnx.ai/onnx/operators/onnx__Sign.html).
type Sign struct{ kit.SameTypeAndShape }

var _ = kit.Register(&kit.Def{Name: "Sign", Since: kit.Versions{9, 13}, In: "input:T", Out: "output:T",
	Types:       "T: @number",
	Elementwise: true,
	Build:       kit.WithoutAttrs[Sign],
	Gradient:    gradient.None})

var signLoops = elementwise.LoopsOf(
	elementwise.WithTable(elementwise.Loop1(signInts[int8])), elementwise.Loop1(signInts[int16]),
	elementwise.WithKernel1(elementwise.Loop1(signInts[int32]), vec.SignI32), elementwise.Loop1(signInts[int64]),
	elementwise.WithTable(elementwise.Loop1(signUnsigned[uint8])), elementwise.Loop1(signUnsigned[uint16]),
	elementwise.Loop1(signUnsigned[uint32]), elementwise.Loop1(signUnsigned[uint64]),
	elementwise.WithUnary(elementwise.Loop1(signFloats[float32]), elementwise.InPieces(signFast)),
	elementwise.WithKernel1(elementwise.Loop1(signFloats[float64]), vec.SignF64)).WithFast(tensor.TypeFloat16,
	func(dst []byte, in *[3][]byte) {
		vec.SignF16(cpu.Active(), memory.FromRaw[uint16](dst), memory.FromRaw[uint16](in[0]))
	})

// Run implements [ir.Operator].
func (*Sign) Run(c *ir.Call) error { return elementwise.MapTable(c, signLoops, kit.GrainCheap) }

func signFloats[T kit.FloatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		switch {
		case x > 0:
			x = 1
		case x < 0:
			x = -1
		}
		dst[i] = x
	}
}

// signInts has no branches that depend on elements.
func signInts[T kit.SignedNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		y := T(0)
		if x > 0 {
			y = 1
		}
		if x < 0 {
			y = -1
		}
		dst[i] = y
	}
}

func signUnsigned[T kit.UnsignedNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = min(x, 1)
	}
}

// signFast multiplies by a large number and clips the result where there is no kernel for signs.
func signFast(l cpu.Level, dst, x []float32) {
	if l != cpu.NEON {
		vec.SignF32(l, dst, x)
		return
	}
	vec.MulScalarF32(l, dst, x, 0x1p127)
	vec.MulScalarF32(l, dst, dst, 0x1p127)
	vec.ClipF32(l, dst, dst, -1, 1)
}
