package tensor

import "math"

// NewFloat16 rounds f to the nearest Float16, ties to even. Magnitudes of 65520 and more become
// infinite. NaN keeps its sign and the upper bits of its payload.
func NewFloat16(f float32) Float16 {
	b := math.Float32bits(f)
	sign, abs := b>>16&0x8000, b&0x7fffffff
	switch {
	case abs >= 0x47800000: // 65536 and more, infinities, NaN
		if abs > 0x7f800000 {
			return Float16(sign | 0x7e00 | abs>>13&0x1ff)
		}
		return Float16(sign | 0x7c00)
	case abs < 0x38800000: // below 2⁻¹⁴: subnormal halves are multiples of 2⁻²⁴, the spacing of float32 at 0.5
		return Float16(sign | math.Float32bits(math.Float32frombits(abs)+0.5) - 0x3f000000)
	}
	abs += 0xfff + abs>>13&1
	return Float16(sign | (abs-0x38000000)>>13)
}

// NewFloat16FromFloat64 rounds f to the nearest Float16, ties to even, in one rounding.
func NewFloat16FromFloat64(f float64) Float16 { return NewFloat16(roundToOdd(f)) }

// Float32 returns the value, exactly.
func (h Float16) Float32() float32 {
	sign, abs := uint32(h)<<16&0x80000000, uint32(h)&0x7fff
	switch {
	case abs >= 0x7c00:
		return math.Float32frombits(sign | 0x7f800000 | abs<<13)
	case abs < 0x400:
		return math.Float32frombits(sign | math.Float32bits(float32(abs)*0x1p-24))
	}
	return math.Float32frombits(sign | (abs<<13 + 0x38000000))
}

// IsNaN reports whether h is not a number.
func (h Float16) IsNaN() bool { return h&0x7fff > 0x7c00 }

// NewBFloat16 rounds f to the nearest BFloat16, ties to even. NaN keeps its sign and the upper bits
// of its payload.
func NewBFloat16(f float32) BFloat16 {
	b := math.Float32bits(f)
	if b&0x7fffffff > 0x7f800000 {
		return BFloat16(b>>16 | 0x40)
	}
	return BFloat16((b + 0x7fff + b>>16&1) >> 16)
}

// NewBFloat16FromFloat64 rounds f to the nearest BFloat16, ties to even, in one rounding.
func NewBFloat16FromFloat64(f float64) BFloat16 { return NewBFloat16(roundToOdd(f)) }

// Float32 returns the value, exactly.
func (h BFloat16) Float32() float32 { return math.Float32frombits(uint32(h) << 16) }

// IsNaN reports whether h is not a number.
func (h BFloat16) IsNaN() bool { return h&0x7fff > 0x7f80 }

// Float16sToFloat32s widens src into dst, which must be at least as long.
func Float16sToFloat32s(dst []float32, src []Float16) {
	dst = dst[:len(src)]
	for i, h := range src {
		dst[i] = h.Float32()
	}
}

// Float32sToFloat16s rounds src into dst, which must be at least as long, as
// [NewFloat16] does.
func Float32sToFloat16s(dst []Float16, src []float32) {
	dst = dst[:len(src)]
	for i, f := range src {
		dst[i] = NewFloat16(f)
	}
}

// BFloat16sToFloat32s widens src into dst, which must be at least as long.
func BFloat16sToFloat32s(dst []float32, src []BFloat16) {
	dst = dst[:len(src)]
	for i, h := range src {
		dst[i] = math.Float32frombits(uint32(h) << 16)
	}
}

// Float32sToBFloat16s rounds src into dst, which must be at least as long, as
// [NewBFloat16] does.
func Float32sToBFloat16s(dst []BFloat16, src []float32) {
	dst = dst[:len(src)]
	for i, f := range src {
		dst[i] = NewBFloat16(f)
	}
}

// roundToOdd rounds f to float32 so that a second rounding, to a type with at least two bits of
// significand fewer, equals one rounding of f. An inexact result is truncated and its last bit is
// set (Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums", 2008).
func roundToOdd(f float64) float32 {
	n := float32(f)
	if float64(n) == f || n != n {
		return n
	}
	b := math.Float32bits(n)
	if math.Abs(float64(n)) > math.Abs(f) {
		b-- // toward zero; from infinity to the largest finite number
	}
	return math.Float32frombits(b | 1)
}
