package kit

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/tensor"
)

// The constraints of arithmetic. They list types without ~, to exclude Float16 and similar types:
// adding their bits would compile.
type (
	FloatNumber    interface{ float32 | float64 }
	SignedNumber   interface{ int8 | int16 | int32 | int64 }
	UnsignedNumber interface {
		uint8 | uint16 | uint32 | uint64
	}
	IntNumber  interface{ SignedNumber | UnsignedNumber }
	RealNumber interface{ IntNumber | FloatNumber }
)

// LoopBlock is the number of elements that are gathered or repeated at a time.
const LoopBlock = 512

// VecUnary is the signature of vector kernels of one operand.
type VecUnary = func(l cpu.Level, dst, x []float32)

// WidenHalf converts float16 or bfloat16 to float32.
func WidenHalf(dst []float32, src []byte, d tensor.DType) {
	if d == tensor.TypeFloat16 {
		tensor.Float16sToFloat32s(dst, memory.FromRaw[tensor.Float16](src))
	} else {
		tensor.BFloat16sToFloat32s(dst, memory.FromRaw[tensor.BFloat16](src))
	}
}

// NarrowHalf converts float32 to float16 or bfloat16, rounded to nearest, ties to even.
func NarrowHalf(dst []byte, src []float32, d tensor.DType) {
	if d == tensor.TypeFloat16 {
		tensor.Float32sToFloat16s(memory.FromRaw[tensor.Float16](dst), src)
	} else {
		tensor.Float32sToBFloat16s(memory.FromRaw[tensor.BFloat16](dst), src)
	}
}

// WidenHalfFast is WidenHalf with vector kernels.
func WidenHalfFast(dst []float32, src []byte, d tensor.DType) {
	if d == tensor.TypeFloat16 {
		vec.F16ToF32(cpu.Active(), dst, memory.FromRaw[uint16](src))
	} else {
		vec.BF16ToF32(cpu.Active(), dst, memory.FromRaw[uint16](src))
	}
}

// NarrowHalfFast is NarrowHalf with vector kernels.
func NarrowHalfFast(dst []byte, src []float32, d tensor.DType) {
	if d == tensor.TypeFloat16 {
		vec.F32ToF16(cpu.Active(), memory.FromRaw[uint16](dst), src)
	} else {
		vec.F32ToBF16(cpu.Active(), memory.FromRaw[uint16](dst), src)
	}
}

// RepeatOf stores v in every element of dst.
func RepeatOf[T any](dst []T, v T) {
	for i := range dst {
		dst[i] = v
	}
}

// MapBytes maps each byte with a table.
func MapBytes(dst, src []byte, t *[256]byte) { vec.MapU8(cpu.Active(), dst[:len(src)], src, t) }

// IsByte reports whether d is int8 or uint8.
func IsByte(d tensor.DType) bool { return d == tensor.TypeInt8 || d == tensor.TypeUint8 }
