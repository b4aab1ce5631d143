package ops

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/tensor"
)

// IsNaN tells which elements are no numbers
// (https://onnx.ai/onnx/operators/onnx__IsNaN.html).
type IsNaN struct{ boolOfInput }

var _ = register(Def{Name: "IsNaN", Since: []int{9, 13, 20}, In: "X:T1", Out: "Y:T2", Types: Types{"T1": "@float @float8", "T2": "bool"},
	Build: withoutAttrs(&IsNaN{})})

// boolOfInput infers one bool output of the shape of input 0.
type boolOfInput struct{}

func (boolOfInput) Infer(c *ir.InferContext) error {
	c.SetOut(0, ir.Type{Kind: tensor.KindTensor, Elem: tensor.TypeBool, Shape: c.Shape(0)})
	return nil
}

// codesLoop makes a loop over 8-bit numbers from a test of their values.
func codesLoop(d tensor.DType, is func(f float32) bool, value func(code uint8) float32) elementLoop {
	var table [256]bool
	for i := range table {
		table[i] = is(value(uint8(i)))
	}
	return elementLoop{in: d, out: tensor.TypeBool, arity: 1, run: func(dst []byte, in *[3][]byte) {
		out := tensor.FromRaw[bool](dst)
		for i, x := range in[0] {
			out[i] = table[x]
		}
	}}
}

// float8Test makes the loops of the float8 types for a test of float32 numbers.
func float8Test(is func(f float32) bool) []elementLoop {
	return []elementLoop{
		codesLoop(tensor.TypeFloat8E4M3FN, is, func(b uint8) float32 { return tensor.Float8E4M3FN(b).Float32() }),
		codesLoop(tensor.TypeFloat8E4M3FNUZ, is, func(b uint8) float32 { return tensor.Float8E4M3FNUZ(b).Float32() }),
		codesLoop(tensor.TypeFloat8E5M2, is, func(b uint8) float32 { return tensor.Float8E5M2(b).Float32() }),
		codesLoop(tensor.TypeFloat8E5M2FNUZ, is, func(b uint8) float32 { return tensor.Float8E5M2FNUZ(b).Float32() }),
	}
}

var isNaNLoops = loopsOf(append(float8Test(func(f float32) bool { return f != f }),
	withNaNTest(loop1(isNaNLoop[float32])), loop1(isNaNLoop[float64]))...)

// Run implements [ir.Operator].
func (*IsNaN) Run(c *ir.Call) error { return mapTable(c, isNaNLoops, grainCheap) }

func isNaNLoop[T floatNumber](dst []bool, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = x != x
	}
}

// withNaNTest adds a vector kernel: a NaN differs from itself.
func withNaNTest(l elementLoop) elementLoop {
	l.fast = func(dst []byte, in *[3][]byte) {
		y, x := tensor.FromRaw[bool](dst), tensor.FromRaw[float32](in[0])
		vec.EqualF32(cpu.Active(), y, x, x)
		whole := len(dst) &^ 31
		notWords(dst[:whole], dst[:whole], nil)
		notLoop(y[whole:], y[whole:])
	}
	return l
}
