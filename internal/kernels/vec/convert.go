package vec

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
)

// The conversions are exact or round to nearest, ties to even; all levels give the same bits. NaN
// becomes a quiet NaN with the leading bits of its payload (widening bfloat16 keeps all bits).

// F16ToF32 widens IEEE 754 binary16 numbers, given as bits.
func F16ToF32(l cpu.Level, dst []float32, x []uint16) { f16ToF32(l, dst, x) }

func f16ToF32Generic(dst []float32, x []uint16) {
	for i, h := range x[:len(dst)] {
		sign := uint32(h>>15) << 31
		e, m := uint32(h>>10)&31, uint32(h)&1023
		switch {
		case e == 31:
			if m != 0 {
				m |= 512
			}
			dst[i] = math.Float32frombits(sign | 0x7f800000 | m<<13)
		case e == 0:
			dst[i] = math.Float32frombits(math.Float32bits(float32(m)*0x1p-24) | sign)
		default:
			dst[i] = math.Float32frombits(sign | (e+112)<<23 | m<<13)
		}
	}
}

// F32ToF16 narrows to IEEE 754 binary16. Magnitudes of at least 65520 become infinite.
func F32ToF16(l cpu.Level, dst []uint16, x []float32) { f32ToF16(l, dst, x) }

func f32ToF16Generic(dst []uint16, x []float32) {
	for i, v := range x[:len(dst)] {
		b := math.Float32bits(v)
		sign, a := uint16(b>>16)&0x8000, b&0x7fffffff
		switch {
		case a > 0x7f800000:
			dst[i] = sign | 0x7e00 | uint16(a>>13)&0x3ff
		case a >= 0x477ff000: // 65520
			dst[i] = sign | 0x7c00
		case a < 0x38800000: // below the smallest normal 2⁻¹⁴: a multiple of 2⁻²⁴
			dst[i] = sign | uint16(math.RoundToEven(float64(math.Float32frombits(a))*0x1p24))
		default:
			a -= 112 << 23
			dst[i] = sign | uint16((a+0xfff+a>>13&1)>>13)
		}
	}
}

// BF16ToF32 widens bfloat16 numbers, given as bits.
func BF16ToF32(l cpu.Level, dst []float32, x []uint16) { bf16ToF32(l, dst, x) }

func bf16ToF32Generic(dst []float32, x []uint16) {
	for i, h := range x[:len(dst)] {
		dst[i] = math.Float32frombits(uint32(h) << 16)
	}
}

// F32ToBF16 narrows to bfloat16.
func F32ToBF16(l cpu.Level, dst []uint16, x []float32) { f32ToBF16(l, dst, x) }

func f32ToBF16Generic(dst []uint16, x []float32) {
	for i, v := range x[:len(dst)] {
		dst[i] = RoundBF16(v)
	}
}

// RoundBF16 returns the bits of v rounded to bfloat16.
func RoundBF16(v float32) uint16 {
	b := math.Float32bits(v)
	if b&0x7fffffff > 0x7f800000 {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// I8ToF32 computes dst[i] = float32(x[i]).
func I8ToF32(l cpu.Level, dst []float32, x []int8) { i8ToF32(l, dst, x) }

func i8ToF32Generic(dst []float32, x []int8) {
	for i, v := range x[:len(dst)] {
		dst[i] = float32(v)
	}
}

// U8ToF32 computes dst[i] = float32(x[i]).
func U8ToF32(l cpu.Level, dst []float32, x []uint8) { u8ToF32(l, dst, x) }

func u8ToF32Generic(dst []float32, x []uint8) {
	for i, v := range x[:len(dst)] {
		dst[i] = float32(v)
	}
}

// F32ToI32 computes dst[i] = int32(x[i]), truncated. Numbers out of the range of int32, and NaN,
// become the smallest int32.
func F32ToI32(l cpu.Level, dst []int32, x []float32) { f32ToI32(l, dst, x) }

func f32ToI32Generic(dst []int32, x []float32) {
	for i, v := range x[:len(dst)] {
		if v >= -1<<31 && v < 1<<31 {
			dst[i] = int32(v)
		} else {
			dst[i] = math.MinInt32
		}
	}
}

// I32ToF32 computes dst[i] = float32(x[i]), rounded to nearest, ties to even.
func I32ToF32(l cpu.Level, dst []float32, x []int32) { i32ToF32(l, dst, x) }

func i32ToF32Generic(dst []float32, x []int32) {
	for i, v := range x[:len(dst)] {
		dst[i] = float32(v)
	}
}
