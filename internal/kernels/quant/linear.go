package quant

import (
	"encoding/binary"
	"math"
	"unsafe"

	"github.com/onward-ml/onward/internal/cpu"
)

// bytesOf returns the memory of s as uint8, and the range of T as floats.
func bytesOf[T Byte](s []T) (b []uint8, lo, hi float32) {
	var z T
	z--
	lo, hi = 0, 255
	if z < 0 {
		lo, hi = -128, 127
	}
	return unsafe.Slice((*uint8)(unsafe.Pointer(unsafe.SliceData(s))), len(s)), lo, hi
}

// Quantize computes the following, ONNX's QuantizeLinear, with bits that do not depend on the
// level. NaN becomes the smallest value of T.
//
//	for i := range dst {
//		dst[i] = saturate(roundToEven(x[i]/scale) + zero)
//	}
func Quantize[T Byte](l cpu.Level, dst []T, x []float32, scale float32, zero T) {
	b, lo, hi := bytesOf(dst)
	quantizeF32(l, b, x, scale, float32(zero), lo, hi)
}

func quantizeF32Generic(dst []uint8, x []float32, scale, zero, lo, hi float32) {
	for i, v := range x[:len(dst)] {
		dst[i] = narrow(v/scale, zero, lo, hi)
	}
}

func narrow(v, zero, lo, hi float32) uint8 {
	v = float32(math.RoundToEven(float64(v))) + zero
	if !(v > lo) {
		v = lo
	}
	return uint8(int32(min(v, hi)))
}

// Requantize computes the following, the end of ONNX's QLinearMatMul and QLinearConv. scale has
// one value or one per element.
//
//	for i := range dst {
//		dst[i] = saturate(roundToEven(float32(x[i])*scale[i]) + zero)
//	}
func Requantize[T Byte](l cpu.Level, dst []T, x []int32, scale []float32, zero T) {
	b, lo, hi := bytesOf(dst)
	requantizeI32(l, b, x, scale, float32(zero), lo, hi)
}

func requantizeI32Generic(dst []uint8, x []int32, scale []float32, step int, zero, lo, hi float32) {
	for i, v := range x[:len(dst)] {
		dst[i] = narrow(float32(v)*scale[i*step], zero, lo, hi)
	}
}

// transpose4 returns the columns of four rows of four bytes.
func transpose4(r0, r1, r2, r3 uint32) (c0, c1, c2, c3 uint32) {
	const even, odd = 0x00ff00ff, 0xff00ff00
	a, b := r0&even|r1&even<<8, r0>>8&even|r1&odd
	c, d := r2&even|r3&even<<8, r2>>8&even|r3&odd
	const low = 1<<16 - 1
	return a&low | c<<16, b&low | d<<16, a>>16 | c&^low, b>>16 | d&^low
}

// sum4 returns the sum of four int8.
func sum4(x uint32) int32 {
	const even = 0x00ff00ff
	x ^= 0x80808080
	return int32((x&even+x>>8&even)*0x10001>>16) - 4*128
}

// SumU8 returns the sum of at most 1<<24 bytes.
func SumU8(l cpu.Level, x []uint8) uint32 { return sumU8(l, x) }

func sumU8Generic(x []uint8) (s uint32) {
	for ; len(x) >= 8; x = x[8:] { // four sums of pairs in 16 bits each, then their sum in the highest
		const even = 0x00ff00ff00ff00ff
		v := binary.LittleEndian.Uint64(x)
		s += uint32((v&even + v>>8&even) * 0x0001000100010001 >> 48)
	}
	for _, v := range x {
		s += uint32(v)
	}
	return s
}
