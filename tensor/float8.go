package tensor

import (
	"math"
	"sync"
)

// RoundMode is the rounding mode of conversions to float8e8m0, as the attribute round_mode of
// ONNX's Cast. All other floating-point conversions round to nearest, ties to even.
type RoundMode uint8

// The rounding modes. RoundUp, ONNX's default, rounds to the next power of two away from zero,
// RoundDown to the one toward zero, and RoundNearest to the nearest one, ties up.
const (
	RoundUp RoundMode = iota
	RoundDown
	RoundNearest
)

// smallFloat describes a floating-point format of at most 8 bits.
type smallFloat struct {
	mant     uint  // number of mantissa bits
	bias     int   // exponent bias
	sign     uint8 // the sign bit
	max      uint8 // code of the largest finite number
	over     uint8 // code of numbers out of range, unless saturating
	nan      uint8 // code of NaN, or what replaces it
	unsigned bool  // the codes of zero and NaN carry no sign (the FNUZ formats)
}

// The formats; see https://onnx.ai/onnx/technical/float8.html,
// https://onnx.ai/onnx/technical/float4.html and OCP Microscaling Formats 1.0.
var (
	formatE4M3FN   = smallFloat{mant: 3, bias: 7, sign: 0x80, max: 0x7e, over: 0x7f, nan: 0x7f}
	formatE4M3FNUZ = smallFloat{mant: 3, bias: 8, sign: 0x80, max: 0x7f, over: 0x80, nan: 0x80, unsigned: true}
	formatE5M2     = smallFloat{mant: 2, bias: 15, sign: 0x80, max: 0x7b, over: 0x7c, nan: 0x7e}
	formatE5M2FNUZ = smallFloat{mant: 2, bias: 16, sign: 0x80, max: 0x7f, over: 0x80, nan: 0x80, unsigned: true}
	formatE2M1     = smallFloat{mant: 1, bias: 1, sign: 0x08, max: 0x07, over: 0x07, nan: 0x08}
	formatE2M3     = smallFloat{mant: 3, bias: 1, sign: 0x20, max: 0x1f, over: 0x1f, nan: 0x20}
	formatE3M2     = smallFloat{mant: 2, bias: 3, sign: 0x20, max: 0x1f, over: 0x1f, nan: 0x20}
)

// encode returns the code of the float32 with bits b, rounded to nearest, ties to even.
func (f *smallFloat) encode(b uint32, saturate bool) uint8 {
	sign := uint8(0)
	if b>>31 != 0 {
		sign = f.sign
	}
	abs := b & 0x7fffffff
	if abs > 0x7f800000 {
		if f.unsigned {
			return f.nan
		}
		return f.nan ^ sign
	}
	code := f.round(abs)
	if code > uint32(f.max) {
		switch {
		case saturate:
			return f.max | sign
		case f.unsigned:
			return f.over
		}
		return f.over | sign
	}
	if code == 0 && f.unsigned {
		return 0
	}
	return uint8(code) | sign
}

// round returns the code of the magnitude with float32 bits abs, as if the exponent range had no
// upper end. Codes above max, infinity included, are out of range.
func (f *smallFloat) round(abs uint32) uint32 {
	if abs < 0x00800000 {
		return 0 // float32 subnormals are far below half of the least magnitude
	}
	exp := int(abs>>23) - 127 + f.bias
	m := abs&0x7fffff | 1<<23
	shift := 23 - f.mant
	if exp < 1 {
		if exp < -1-int(f.mant) {
			return 0
		}
		shift += uint(1 - exp)
		exp = 1
	}
	code, rest, half := m>>shift, m&(1<<shift-1), uint32(1)<<(shift-1)
	if rest > half || rest == half && code&1 != 0 {
		code++
	}
	return code + uint32(exp-1)<<f.mant // code includes the hidden bit of normal numbers
}

// decode returns the value of code.
func (f *smallFloat) decode(code uint8) float32 {
	abs := code &^ f.sign
	var v float64
	switch {
	case f.unsigned && code == f.nan:
		return float32(math.NaN())
	case abs > f.max: // beyond the finite numbers
		if abs == 0x7c && f.over == 0x7c {
			v = math.Inf(1)
		} else {
			v = math.NaN()
		}
	default:
		exp, m := int(abs>>f.mant), int(abs)&(1<<f.mant-1)
		if exp == 0 {
			exp = 1
		} else {
			m |= 1 << f.mant
		}
		v = math.Ldexp(float64(m), exp-f.bias-int(f.mant))
	}
	if code&f.sign != 0 {
		v = math.Copysign(v, -1)
	}
	return float32(v)
}

func (f *smallFloat) decodeTable() *[256]float32 {
	t := new([256]float32)
	for i := range t {
		t[i] = f.decode(uint8(i) & (f.sign | (f.sign - 1)))
	}
	return t
}

// Tables with the values of all codes; 8 KiB.
var (
	valuesE4M3FN   = formatE4M3FN.decodeTable()
	valuesE4M3FNUZ = formatE4M3FNUZ.decodeTable()
	valuesE5M2     = formatE5M2.decodeTable()
	valuesE5M2FNUZ = formatE5M2FNUZ.decodeTable()
	valuesE2M1     = formatE2M1.decodeTable()
	valuesE2M3     = formatE2M3.decodeTable()
	valuesE3M2     = formatE3M2.decodeTable()
	valuesE8M0     = func() *[256]float32 {
		t := new([256]float32)
		for i := range t {
			t[i] = float32(math.Ldexp(1, i-127))
		}
		t[0xff] = float32(math.NaN())
		return t
	}()
)

// encodeE8M0 rounds the magnitude of the float32 with bits b to a power of two from 2⁻¹²⁷ to 2¹²⁷.
// ONNX does not define the result for negative numbers.
func encodeE8M0(b uint32, mode RoundMode, saturate bool) uint8 {
	abs := b & 0x7fffffff
	switch {
	case abs > 0x7f800000:
		return 0xff
	case abs == 0x7f800000:
		if saturate {
			return 0xfe
		}
		return 0xff
	case abs < 0x00400000: // below 2⁻¹²⁷
		if saturate {
			return 0
		}
		return 0xff
	}
	exp, m, one := abs>>23, abs&0x7fffff, uint32(1<<23)
	if exp == 0 { // 2⁻¹²⁷ and the subnormals above it
		m, one = m&0x3fffff, 1<<22
	}
	switch {
	case mode == RoundUp && m != 0, mode == RoundNearest && m >= one/2:
		exp++
	}
	if exp == 0xff && saturate {
		return 0xfe
	}
	return uint8(exp)
}

// NewFloat8E4M3FN rounds f to nearest, ties to even. Numbers beyond ±448 after rounding, including
// infinities, become ±448 if saturate is set and NaN otherwise.
func NewFloat8E4M3FN(f float32, saturate bool) Float8E4M3FN {
	return Float8E4M3FN(formatE4M3FN.encode(math.Float32bits(f), saturate))
}

// NewFloat8E4M3FNUZ rounds f to nearest, ties to even. Numbers beyond ±240 after rounding,
// including infinities, become ±240 if saturate is set and NaN otherwise. The format has no
// negative zero.
func NewFloat8E4M3FNUZ(f float32, saturate bool) Float8E4M3FNUZ {
	return Float8E4M3FNUZ(formatE4M3FNUZ.encode(math.Float32bits(f), saturate))
}

// NewFloat8E5M2 rounds f to nearest, ties to even. Numbers beyond ±57344 after rounding, including
// infinities, become ±57344 if saturate is set and infinite otherwise.
func NewFloat8E5M2(f float32, saturate bool) Float8E5M2 {
	return Float8E5M2(formatE5M2.encode(math.Float32bits(f), saturate))
}

// NewFloat8E5M2FNUZ rounds f to nearest, ties to even. Numbers beyond ±57344 after rounding,
// including infinities, become ±57344 if saturate is set and NaN otherwise. The format has no
// negative zero.
func NewFloat8E5M2FNUZ(f float32, saturate bool) Float8E5M2FNUZ {
	return Float8E5M2FNUZ(formatE5M2FNUZ.encode(math.Float32bits(f), saturate))
}

// NewFloat8E8M0 rounds the magnitude of f to a power of two and ignores the sign. Numbers out of
// the range from 2⁻¹²⁷ to 2¹²⁷, including zero and infinity, become the nearer end of the range if
// saturate is set and NaN otherwise.
func NewFloat8E8M0(f float32, mode RoundMode, saturate bool) Float8E8M0 {
	return Float8E8M0(encodeE8M0(math.Float32bits(f), mode, saturate))
}

// NewFloat4E2M1 rounds f to nearest, ties to even. Numbers beyond ±6, including infinities, become
// ±6. NaN becomes the zero of the opposite sign, as in ONNX's reference implementation and test
// cases; the documentation of the type says 6.
func NewFloat4E2M1(f float32) Float4E2M1 {
	return Float4E2M1(formatE2M1.encode(math.Float32bits(f), true))
}

// NewFloat6E2M3 rounds f to nearest, ties to even. Numbers beyond ±7.5, including infinities,
// become ±7.5. NaN becomes the zero of the opposite sign, as in ONNX's reference implementation;
// the specification does not define it.
func NewFloat6E2M3(f float32) Float6E2M3 {
	return Float6E2M3(formatE2M3.encode(math.Float32bits(f), true))
}

// NewFloat6E3M2 rounds f to nearest, ties to even. Numbers beyond ±28, including infinities, become
// ±28. NaN becomes the zero of the opposite sign, as in [NewFloat6E2M3].
func NewFloat6E3M2(f float32) Float6E3M2 {
	return Float6E3M2(formatE3M2.encode(math.Float32bits(f), true))
}

// Float32 returns the value, exactly.
func (f Float8E4M3FN) Float32() float32 { return valuesE4M3FN[f] }

// Float32 returns the value, exactly.
func (f Float8E4M3FNUZ) Float32() float32 { return valuesE4M3FNUZ[f] }

// Float32 returns the value, exactly.
func (f Float8E5M2) Float32() float32 { return valuesE5M2[f] }

// Float32 returns the value, exactly.
func (f Float8E5M2FNUZ) Float32() float32 { return valuesE5M2FNUZ[f] }

// Float32 returns the value, exactly.
func (f Float8E8M0) Float32() float32 { return valuesE8M0[f] }

// Float32 returns the value, exactly. Bits above the lower four are ignored.
func (f Float4E2M1) Float32() float32 { return valuesE2M1[f] }

// Float32 returns the value, exactly. The upper two bits are ignored.
func (f Float6E2M3) Float32() float32 { return valuesE2M3[f] }

// Float32 returns the value, exactly. The upper two bits are ignored.
func (f Float6E3M2) Float32() float32 { return valuesE3M2[f] }

// encodeTable maps the upper half of a float32 to a code. The last bit of the index is set if the
// lower half of the float32 is not zero. The index is thus the float32 rounded to odd at 8 bits of
// significand, and rounding it to a format of at most 4 bits equals rounding the float32.
type encodeTable [1 << 16]uint8

func (t *encodeTable) convert(dst []uint8, src []float32) {
	dst = dst[:len(src)]
	for i, f := range src {
		b := math.Float32bits(f)
		dst[i] = t[uint16(b>>16|(b&0xffff+0xffff)>>16)]
	}
}

func newEncodeTable(encode func(b uint32) uint8) *encodeTable {
	t := new(encodeTable)
	for i := range t {
		t[i] = encode(uint32(i) << 16)
	}
	return t
}

// smallEncoders returns the tables of f, made on first use: index 1 saturates, index 0 does not.
func smallEncoders(f *smallFloat) [2]func() *encodeTable {
	mk := func(saturate bool) func() *encodeTable {
		return sync.OnceValue(func() *encodeTable {
			return newEncodeTable(func(b uint32) uint8 { return f.encode(b, saturate) })
		})
	}
	return [2]func() *encodeTable{mk(false), mk(true)}
}

var (
	encodersE4M3FN   = smallEncoders(&formatE4M3FN)
	encodersE4M3FNUZ = smallEncoders(&formatE4M3FNUZ)
	encodersE5M2     = smallEncoders(&formatE5M2)
	encodersE5M2FNUZ = smallEncoders(&formatE5M2FNUZ)
	encodersE2M1     = smallEncoders(&formatE2M1)
	encodersE2M3     = smallEncoders(&formatE2M3)
	encodersE3M2     = smallEncoders(&formatE3M2)
	encodersE8M0     = func() (t [3][2]func() *encodeTable) {
		for mode := range t {
			for s := range t[mode] {
				t[mode][s] = sync.OnceValue(func() *encodeTable {
					return newEncodeTable(func(b uint32) uint8 { return encodeE8M0(b, RoundMode(mode), s == 1) })
				})
			}
		}
		return t
	}()
)

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func decodeSmall(dst []float32, src []byte, values *[256]float32) {
	dst = dst[:len(src)]
	for i, c := range src {
		dst[i] = values[c]
	}
}
