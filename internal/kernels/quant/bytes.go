package quant

import (
	"encoding/binary"
	"math"

	"github.com/onward-ml/onward/internal/cpu"
)

// Linear is a linear quantization: byte x represents (x - Zero)·Scale.
type Linear struct {
	Scale float32
	Zero  int32
}

// Add computes the following, ONNX Runtime's QLinearAdd for scales in steps of the result, with
// bits that do not depend on the level. The bytes are those of int8 if signed, otherwise of uint8.
// NaN becomes the smallest value.
//
//	c := -(x.Zero*x.Scale + y.Zero*y.Scale)
//	for i := range dst {
//		dst[i] = saturate(roundToEven(FMA(a[i], x.Scale, FMA(b[i], y.Scale, c))) + zero)
//	}
//
// For scales of 2¹⁴ and more, it adds float32(a[i]-x.Zero)*x.Scale to float32(b[i]-y.Zero)*y.Scale:
// c might overflow.
func Add(l cpu.Level, dst, a, b []byte, signed bool, x, y Linear, zero int32) {
	const small = 1 << 14 // so that sums are below 2³¹, as kernels require
	a, b = a[:len(dst)], b[:len(dst)]
	flip, lo, hi := byteBounds(signed)
	at := func(v byte) float32 { return float32(int32(v^byte(flip)) - flip) }
	if max(x.Scale, -x.Scale, y.Scale, -y.Scale) < small {
		c := float32(-(float64(x.Zero)*float64(x.Scale) + float64(y.Zero)*float64(y.Scale)))
		for i := addBytesAsm(l, dst, a, b, flip, x.Scale, y.Scale, c, float32(zero), lo, hi); i < len(dst); i++ {
			dst[i] = narrow(fma(at(a[i]), x.Scale, fma(at(b[i]), y.Scale, c)), float32(zero), lo, hi)
		}
		return
	}
	for i := range dst {
		dst[i] = narrow(float32((at(a[i])-float32(x.Zero))*x.Scale)+float32((at(b[i])-float32(y.Zero))*y.Scale),
			float32(zero), lo, hi)
	}
}

// byteBounds returns the bounds of int8 or uint8. flip, 128 or 0, converts elements to uint8 by
// XOR.
func byteBounds(signed bool) (flip int32, lo, hi float32) {
	if signed {
		return 128, -128, 127
	}
	return 0, 0, 255
}

// fma returns a·b + c, rounded once: the float64 sum is exact unless c is smaller than its last
// bit.
func fma(a, b, c float32) float32 { return float32(math.FMA(float64(a), float64(b), float64(c))) }

// Mul computes the following, ONNX Runtime's QLinearMul for a scale in steps of the result, as
// [Add] otherwise. Unlike in Add, the zero point is added before rounding.
//
//	for i := range dst {
//		dst[i] = saturate(roundToEven(float32(a[i]-x)*float32(b[i]-y)*scale + float32(zero)))
//	}
func Mul(l cpu.Level, dst, a, b []byte, signed bool, x, y int32, scale float32, zero int32) {
	a, b = a[:len(dst)], b[:len(dst)]
	flip, lo, hi := byteBounds(signed)
	x, y = x+flip, y+flip
	for i := mulBytesAsm(l, dst, a, b, x, y, flip, scale, float32(zero), lo, hi); i < len(dst); i++ {
		u, v := float32(int32(a[i]^byte(flip))-x), float32(int32(b[i]^byte(flip))-y)
		dst[i] = narrow(float32(float32(u*v)*scale)+float32(zero), 0, lo, hi)
	}
}

// MaxWindow computes the following for a stride of 1 or 2. x reaches one element beyond the last
// window with stride 2. The bytes are signed if least is 128, the bits of -128, and unsigned if it
// is 0.
//
//	for i := range dst {
//		dst[i] = least
//		for j := range kh {
//			dst[i] = max(dst[i], slices.Max(x[j*lds+i*stride:][:kw]))
//		}
//	}
func MaxWindow(l cpu.Level, dst, x []uint8, lds, kh, kw, stride int, least uint8) {
	if len(dst) == 0 || kh <= 0 || kw <= 0 {
		return
	}
	last := (kh-1)*lds + (len(dst)-1)*stride + kw - 1
	_ = x[last+stride-1]
	if (stride == 1 || stride == 2) && maxWindowAsm(l, dst, x, lds, kh, kw, stride, uint32(least)) {
		return
	}
	for i := range dst {
		v := uint8(0)
		for j := range kh {
			for _, e := range x[j*lds+i*stride:][:kw] {
				v = max(v, e^least)
			}
		}
		dst[i] = v ^ least
	}
}

// MaxRanges computes the following for ranges of n elements of dst, whose length is a multiple of
// n. least is that of [MaxWindow].
//
//	for i := range len(dst)/n {
//		for j := range n {
//			dst[i*n+j] = least
//			for k := range taps {
//				dst[i*n+j] = max(dst[i*n+j], x[i*step+k*lds+j])
//			}
//		}
//	}
func MaxRanges(l cpu.Level, dst, x []uint8, n, step, lds, taps int, least uint8) {
	if len(dst) == 0 || taps <= 0 {
		return
	}
	_ = x[(len(dst)/n-1)*step+(taps-1)*lds+n-1]
	if maxRangesAsm(l, dst, x, n, step, lds, taps, uint32(least)) {
		return
	}
	for i := range len(dst) / n {
		MaxWindow(l, dst[i*n:][:n], x[i*step:], lds, taps, 1, 1, least)
	}
}

// copyBytes copies a row of int8 or uint8, zero-padded. If flip is set, it adds 128 to int8 and
// subtracts it from uint8.
func copyBytes(dst, src []byte, flip bool) {
	if len(src) == 0 {
		return
	}
	clear(dst[copy(dst, src):])
	if !flip {
		return
	}
	n := len(src) &^ 7
	for i := 0; i < n; i += 8 {
		binary.LittleEndian.PutUint64(dst[i:], binary.LittleEndian.Uint64(dst[i:])^0x8080808080808080)
	}
	for i := n; i < len(src); i++ {
		dst[i] ^= 0x80
	}
}

// copyWords copies a row as 16-bit integers plus shift, zero-padded.
func copyWords(l cpu.Level, dst, row []byte, signed bool, shift int32) {
	flip := byte(0)
	if signed {
		flip, shift = 0x80, shift-128
	}
	clear(dst[len(row)*2:])
	n := widenBytes(l, dst, row, flip, shift)
	for i, v := range row[n:] {
		binary.NativeEndian.PutUint16(dst[2*(n+i):], uint16(int32(v^flip)+shift))
	}
}
