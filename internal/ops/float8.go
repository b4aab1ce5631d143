package ops

import (
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/tensor"
)

// codesLoop returns a loop over 8-bit floating-point numbers for a test of their values.
func codesLoop(d tensor.DType, is func(f float32) bool, value func(code uint8) float32) *elementwise.Loop {
	var table [256]bool
	for i := range table {
		table[i] = is(value(uint8(i)))
	}
	return &elementwise.Loop{In: d, Out: tensor.TypeBool, Arity: 1, Run: func(dst []byte, in *[3][]byte) {
		out := memory.FromRaw[bool](dst)
		for i, x := range in[0] {
			out[i] = table[x]
		}
	}}
}

// float8Test returns the loops of the float8 types for a test of float32 numbers.
func float8Test(is func(f float32) bool) []*elementwise.Loop {
	return []*elementwise.Loop{
		codesLoop(tensor.TypeFloat8E4M3FN, is, func(b uint8) float32 { return tensor.Float8E4M3FN(b).Float32() }),
		codesLoop(tensor.TypeFloat8E4M3FNUZ, is, func(b uint8) float32 { return tensor.Float8E4M3FNUZ(b).Float32() }),
		codesLoop(tensor.TypeFloat8E5M2, is, func(b uint8) float32 { return tensor.Float8E5M2(b).Float32() }),
		codesLoop(tensor.TypeFloat8E5M2FNUZ, is, func(b uint8) float32 { return tensor.Float8E5M2FNUZ(b).Float32() }),
	}
}
