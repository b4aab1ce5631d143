package tensor

import (
	"math"
	"math/bits"
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/memory"
)

// ConvertOptions are the attributes of ONNX's Cast except to.
type ConvertOptions struct {
	// Saturate makes conversions to 8-bit floating-point types clamp to the largest finite number,
	// as is ONNX's default. Otherwise numbers out of range become infinite or NaN.
	Saturate bool
	// RoundMode applies to conversions to float8e8m0 only.
	RoundMode RoundMode
}

// Convert returns the elements of t converted to another type, by the rules of ONNX's Cast
// (https://onnx.ai/onnx/operators/onnx__Cast.html):
//
//   - Floating-point types: one rounding to nearest, ties to even. Numbers out of range become
//     infinite. For 8-bit types they follow opts and the tables of the operator. For 4- and 6-bit
//     types they become the largest number, regardless of opts, and NaN becomes zero.
//   - Integer to integer: the low bits, reinterpreted.
//   - Floating point to integer: the fraction is dropped. To integers of 4 or 2 bits: one rounding
//     to nearest, ties to even, then the low bits (https://onnx.ai/onnx/technical/int4.html).
//   - To bool: true if not zero, so NaN is true. From bool: 0 or 1.
//   - From string: decimal notation, "INF" and "NaN" with any sign and case. Fractions of integers
//     are dropped. Anything else is an error.
//   - To string: eight significant digits like C's %.8g, "NaN", "INF", "-INF", integers in full,
//     bool as "1" and "0".
//   - complex64 and complex128 convert to each other only.
//
// ONNX leaves floating point to integer undefined if the number does not fit. Convert does what
// NumPy and ONNX Runtime do on x86:
//
//   - int32 and int64: NaN and numbers out of range become the least integer.
//   - Types of at most 16 bits: the low bits of the int32.
//   - uint32: the low bits of the int64.
//   - uint64: negative numbers become the bits of their int64, NaN and numbers below −2⁶³ become
//     2⁶³, and numbers of 2⁶⁴ and more become 0.
//
// Nil options stand for the defaults. The result never shares memory with t.
func Convert(t *Tensor, to DType, opts *ConvertOptions) (*Tensor, error) {
	if err := convertible(to, t.dtype); err != nil {
		return nil, err
	}
	out, err := Zeros(to, t.shape...)
	if err != nil {
		return nil, err
	}
	if err := ConvertInto(out, t, opts); err != nil {
		return nil, err
	}
	return out, nil
}

func convertible(to, from DType) error {
	if !to.Valid() || !from.Valid() || isComplex(to) != isComplex(from) {
		return fail.Errorf("tensor: cannot convert %s to %s", from, to)
	}
	return nil
}

func isComplex(d DType) bool { return d == TypeComplex64 || d == TypeComplex128 }

// ConvertInto converts src into dst like [Convert]. dst must have as many elements as src and must
// not share memory with it. It allocates for strings only.
func ConvertInto(dst, src *Tensor, opts *ConvertOptions) error {
	if opts == nil {
		opts = &ConvertOptions{}
	}
	if err := convertible(dst.dtype, src.dtype); err != nil {
		return err
	}
	n := src.Len()
	if dst.Len() != n {
		return fail.Errorf("tensor: cannot convert %s (%d elements) into %s (%d elements)", src, n, dst, dst.Len())
	}
	if opts.RoundMode > RoundNearest {
		return fail.Errorf("tensor: unknown rounding mode %d", opts.RoundMode)
	}
	switch {
	case dst.dtype == src.dtype:
		copy(dst.data, src.data)
		copy(dst.strs, src.strs)
	case dst.dtype == TypeString:
		formatElements(dst.strs, src)
	case src.dtype == TypeString:
		return parseElements(dst, src.strs, *opts)
	case src.dtype == TypeComplex64:
		for i, v := range MustData[complex64](src) {
			memory.FromRaw[complex128](dst.data)[i] = complex128(v)
		}
	case src.dtype == TypeComplex128:
		for i, v := range MustData[complex128](src) {
			memory.FromRaw[complex64](dst.data)[i] = complex64(v)
		}
	default:
		convertElements(span{dst.dtype, dst.data, n}, span{src.dtype, src.data, n}, *opts)
	}
	return nil
}

// span is a slice of n numbers or bools.
type span struct {
	dtype DType
	data  []byte
	n     int
}

// at returns n elements from element i. Element i must start at a byte.
func (s span) at(i, n int) span {
	w := s.dtype.Bits()
	return span{s.dtype, s.data[i*w/8 : (i*w+n*w+7)/8], n}
}

// blockLen is the number of elements of a narrow type that are widened at a time. It is a multiple
// of 4, so that a block of packed elements starts at a byte.
const blockLen = 512

// wideOf returns the type in which elements of d are computed: float32 for floating-point types of
// at most 16 bits, an 8-bit integer for packed integers, and d itself for the types with Go
// arithmetic.
func wideOf(d DType) DType {
	switch d {
	case TypeFloat16, TypeBFloat16, TypeFloat4E2M1, TypeFloat6E2M3, TypeFloat6E3M2:
		return TypeFloat32
	case TypeInt2, TypeInt4:
		return TypeInt8
	case TypeUint2, TypeUint4:
		return TypeUint8
	}
	if d.IsFloat8() {
		return TypeFloat32
	}
	return d
}

// convertElements converts between types of numbers or bools. Narrow types are widened and narrowed
// in blocks.
func convertElements(dst, src span, opts ConvertOptions) {
	ws, wd := wideOf(src.dtype), wideOf(dst.dtype)
	narrowSrc, narrowDst := ws != src.dtype, wd != dst.dtype
	if !narrowSrc && !narrowDst {
		convertWide(dst, src, false)
		return
	}
	var a, b [blockLen]float32
	for i := 0; i < src.n; i += blockLen {
		n := min(blockLen, src.n-i)
		from, to := src.at(i, n), dst.at(i, n)
		if narrowSrc {
			w := span{ws, memory.AsBytes(a[:]), n}
			if ws == wd && !narrowDst {
				w = to
			}
			widen(w.data, from)
			if ws == wd && !narrowDst {
				continue
			}
			from = w
		}
		if !narrowDst {
			convertWide(to, from, false)
			continue
		}
		if ws != wd {
			w := span{wd, memory.AsBytes(b[:]), n}
			convertWide(w, from, true)
			from = w
		}
		narrow(to, from.data, opts)
	}
}

// widen converts s, of a narrow type, to elements of wideOf(s.dtype) in dst.
func widen(dst []byte, s span) {
	f := memory.FromRaw[float32](dst)
	switch s.dtype {
	case TypeFloat16:
		Float16sToFloat32s(f, memory.FromRaw[Float16](s.data))
	case TypeBFloat16:
		BFloat16sToFloat32s(f, memory.FromRaw[BFloat16](s.data))
	case TypeFloat8E4M3FN:
		decodeSmall(f, s.data, valuesE4M3FN)
	case TypeFloat8E4M3FNUZ:
		decodeSmall(f, s.data, valuesE4M3FNUZ)
	case TypeFloat8E5M2:
		decodeSmall(f, s.data, valuesE5M2)
	case TypeFloat8E5M2FNUZ:
		decodeSmall(f, s.data, valuesE5M2FNUZ)
	case TypeFloat8E8M0:
		decodeSmall(f, s.data, valuesE8M0)
	case TypeFloat4E2M1:
		decodePacked(f, s, valuesE2M1)
	case TypeFloat6E2M3:
		decodePacked(f, s, valuesE2M3)
	case TypeFloat6E3M2:
		decodePacked(f, s, valuesE3M2)
	case TypeInt2, TypeInt4:
		memory.UnpackInt(memory.FromRaw[int8](dst)[:s.n], s.data, s.dtype.Bits())
	case TypeUint2, TypeUint4:
		memory.UnpackUint(dst[:s.n], s.data, s.dtype.Bits())
	}
}

// narrow rounds elements of wideOf(s.dtype) in src to s, which is of a narrow type.
func narrow(s span, src []byte, opts ConvertOptions) {
	sat := btoi(opts.Saturate)
	if wideOf(s.dtype) != TypeFloat32 {
		memory.PackUint(s.data, src[:s.n], s.dtype.Bits())
		return
	}
	f := memory.FromRaw[float32](src)[:s.n]
	switch s.dtype {
	case TypeFloat16:
		Float32sToFloat16s(memory.FromRaw[Float16](s.data), f)
	case TypeBFloat16:
		Float32sToBFloat16s(memory.FromRaw[BFloat16](s.data), f)
	case TypeFloat8E4M3FN:
		encodersE4M3FN[sat]().convert(s.data, f)
	case TypeFloat8E4M3FNUZ:
		encodersE4M3FNUZ[sat]().convert(s.data, f)
	case TypeFloat8E5M2:
		encodersE5M2[sat]().convert(s.data, f)
	case TypeFloat8E5M2FNUZ:
		encodersE5M2FNUZ[sat]().convert(s.data, f)
	case TypeFloat8E8M0:
		encodersE8M0[opts.RoundMode][sat]().convert(s.data, f)
	case TypeFloat4E2M1:
		encodePacked(s, f, encodersE2M1[1]())
	case TypeFloat6E2M3:
		encodePacked(s, f, encodersE2M3[1]())
	case TypeFloat6E3M2:
		encodePacked(s, f, encodersE3M2[1]())
	}
}

// decodePacked widens s, which has at most blockLen packed elements.
func decodePacked(dst []float32, s span, values *[256]float32) {
	var codes [blockLen]uint8
	memory.UnpackUint(codes[:s.n], s.data, s.dtype.Bits())
	decodeSmall(dst, codes[:s.n], values)
}

// encodePacked rounds src to s, which has at most blockLen packed elements.
func encodePacked(s span, src []float32, table *encodeTable) {
	var codes [blockLen]uint8
	table.convert(codes[:], src)
	memory.PackUint(s.data, codes[:s.n], s.dtype.Bits())
}

type integer interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64
}

type float interface{ float32 | float64 }

// convertWide converts between types with Go arithmetic. If narrowed is set, dst is a float32, int8
// or uint8 that narrow converts next: conversions to float32 round to odd (see roundToOdd), those
// of floating point to integers round to nearest, ties to even.
func convertWide(dst, src span, narrowed bool) {
	switch src.dtype {
	case TypeFloat32:
		fromFloats(dst, memory.FromRaw[float32](src.data)[:src.n], narrowed)
	case TypeFloat64:
		fromFloats(dst, memory.FromRaw[float64](src.data)[:src.n], narrowed)
	case TypeInt8:
		fromIntegers(dst, memory.FromRaw[int8](src.data)[:src.n], narrowed)
	case TypeInt16:
		fromIntegers(dst, memory.FromRaw[int16](src.data)[:src.n], narrowed)
	case TypeInt32:
		fromIntegers(dst, memory.FromRaw[int32](src.data)[:src.n], narrowed)
	case TypeInt64:
		fromIntegers(dst, memory.FromRaw[int64](src.data)[:src.n], narrowed)
	case TypeUint8, TypeBool:
		fromIntegers(dst, src.data[:src.n], narrowed)
	case TypeUint16:
		fromIntegers(dst, memory.FromRaw[uint16](src.data)[:src.n], narrowed)
	case TypeUint32:
		fromIntegers(dst, memory.FromRaw[uint32](src.data)[:src.n], narrowed)
	case TypeUint64:
		fromIntegers(dst, memory.FromRaw[uint64](src.data)[:src.n], narrowed)
	default:
		panic("tensor: " + src.dtype.String() + " is not wide")
	}
}

func fromIntegers[S integer](dst span, src []S, narrowed bool) {
	switch dst.dtype {
	case TypeBool:
		notZero(dst.data, src)
	case TypeInt8, TypeUint8:
		cast(memory.FromRaw[uint8](dst.data), src)
	case TypeInt16, TypeUint16:
		cast(memory.FromRaw[uint16](dst.data), src)
	case TypeInt32, TypeUint32:
		cast(memory.FromRaw[uint32](dst.data), src)
	case TypeInt64, TypeUint64:
		cast(memory.FromRaw[uint64](dst.data), src)
	case TypeFloat64:
		cast(memory.FromRaw[float64](dst.data), src)
	case TypeFloat32:
		d := memory.FromRaw[float32](dst.data)
		if !narrowed {
			cast(d, src)
			return
		}
		d = d[:len(src)]
		for i, v := range src {
			if v < 0 {
				d[i] = -integerToOdd(-uint64(v))
			} else {
				d[i] = integerToOdd(uint64(v))
			}
		}
	default:
		panic("tensor: " + dst.dtype.String() + " is not wide")
	}
}

func fromFloats[S float](dst span, src []S, narrowed bool) {
	switch dst.dtype {
	case TypeBool:
		notZero(dst.data, src)
	case TypeInt8, TypeUint8:
		if narrowed {
			round32(memory.FromRaw[uint8](dst.data), src)
		} else {
			truncate32(memory.FromRaw[uint8](dst.data), src)
		}
	case TypeInt16, TypeUint16:
		truncate32(memory.FromRaw[uint16](dst.data), src)
	case TypeInt32:
		truncate32(memory.FromRaw[int32](dst.data), src)
	case TypeInt64:
		truncate64(memory.FromRaw[int64](dst.data), src)
	case TypeUint32:
		truncate64(memory.FromRaw[uint32](dst.data), src)
	case TypeUint64:
		d := memory.FromRaw[uint64](dst.data)[:len(src)]
		for i, v := range src {
			switch {
			case v >= 1<<64:
				d[i] = 0
			case v >= 1<<63:
				d[i] = uint64(int64(v-1<<63)) ^ 1<<63
			default:
				d[i] = uint64(truncInt64(v))
			}
		}
	case TypeFloat64:
		cast(memory.FromRaw[float64](dst.data), src)
	case TypeFloat32:
		d := memory.FromRaw[float32](dst.data)
		if !narrowed {
			cast(d, src)
			return
		}
		d = d[:len(src)]
		for i, v := range src {
			d[i] = roundToOdd(float64(v))
		}
	default:
		panic("tensor: " + dst.dtype.String() + " is not wide")
	}
}

func cast[D, S integer | float](dst []D, src []S) {
	dst = dst[:len(src)]
	for i, v := range src {
		dst[i] = D(v)
	}
}

func notZero[S integer | float](dst []byte, src []S) {
	dst = dst[:len(src)]
	for i, v := range src {
		dst[i] = 0
		if v != 0 {
			dst[i] = 1
		}
	}
}

// The bounds are stated because Go leaves the result of a conversion that
// does not fit to the machine.

func truncInt32[S float](v S) int32 {
	if v >= -1<<31 && v < 1<<31 {
		return int32(v)
	}
	return -1 << 31
}

func truncInt64[S float](v S) int64 {
	if v >= -1<<63 && v < 1<<63 {
		return int64(v)
	}
	return -1 << 63
}

func truncate32[D integer, S float](dst []D, src []S) {
	dst = dst[:len(src)]
	for i, v := range src {
		dst[i] = D(truncInt32(v))
	}
}

func round32[D integer, S float](dst []D, src []S) {
	dst = dst[:len(src)]
	for i, v := range src {
		dst[i] = D(truncInt32(math.RoundToEven(float64(v))))
	}
}

func truncate64[D integer, S float](dst []D, src []S) {
	dst = dst[:len(src)]
	for i, v := range src {
		dst[i] = D(truncInt64(v))
	}
}

// integerToOdd is roundToOdd for integers.
func integerToOdd(v uint64) float32 {
	if n := bits.Len64(v); n > 24 {
		s := n - 24
		q := v >> s
		if q<<s != v {
			q |= 1
		}
		v = q << s
	}
	return float32(v)
}

// Float64s returns the elements of a tensor of numbers or bools as float64,
// in a new slice. Integers above 2⁵³ round.
func Float64s(t *Tensor) ([]float64, error) {
	if t.dtype == TypeFloat64 {
		return slices.Clone(MustData[float64](t)), nil
	}
	c, err := Convert(t, TypeFloat64, nil)
	if err != nil {
		return nil, err
	}
	return MustData[float64](c), nil
}
