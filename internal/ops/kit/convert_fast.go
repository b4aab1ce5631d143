package kit

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/tensor"
)

// castKernel converts elements, given as bytes, with the results of [tensor.ConvertInto].
type castKernel func(dst, src []byte)

// castTable holds kernels for pairs of types: from, to.
type castTable [32][32]castKernel

// castKernels are vector kernels.
var castKernels = fastCasts()

func castWith[D, S tensor.Element](f func(l cpu.Level, dst []D, x []S)) castKernel {
	return func(dst, src []byte) { f(cpu.Active(), memory.FromRaw[D](dst), memory.FromRaw[S](src)) }
}

func fastCasts() *castTable {
	const (
		f32, f64, f16, bf16 = tensor.TypeFloat32, tensor.TypeFloat64, tensor.TypeFloat16, tensor.TypeBFloat16
		i8, u8, i32, i64    = tensor.TypeInt8, tensor.TypeUint8, tensor.TypeInt32, tensor.TypeInt64
		truth               = tensor.TypeBool
	)
	m := new(castTable)
	for _, k := range []struct {
		from, to tensor.DType
		castKernel
	}{
		{f32, i32, castWith(vec.F32ToI32)}, {f32, i64, castWith(vec.F32ToI64)}, {f32, f64, castWith(vec.F32ToF64)},
		{f32, truth, castWith(vec.F32ToBool)},
		{f64, i32, castWith(vec.F64ToI32)}, {f64, i64, castWith(vec.F64ToI64)}, {f64, f32, castWith(vec.F64ToF32)},
		{i32, f32, castWith(vec.I32ToF32)},
		{i32, f64, castWith(vec.I32ToF64)}, {i32, i64, castWith(vec.I32ToI64)}, {i32, truth, castWith(vec.I32ToBool)},
		{i64, f32, castWith(vec.I64ToF32)},
		{i64, f64, castWith(vec.I64ToF64)}, {i64, i32, castWith(vec.I64ToI32)}, {i64, truth, castWith(vec.I64ToBool)},
		{i8, f32, castWith(vec.I8ToF32)},
		{i8, i32, castWith(vec.I8ToI32)}, {i8, i64, castWith(vec.I8ToI64)},
	} {
		m[k.from][k.to] = k.castKernel
	}
	// float32 holds integers of 16 bits exactly.
	for from, wide := range map[tensor.DType]castKernel{tensor.TypeInt16: castWith(vec.I16ToF32),
		tensor.TypeUint16: castWith(vec.U16ToF32)} {
		m[from][f32] = wide
		for _, to := range []tensor.DType{i32, i64, f64, truth} {
			m[from][to] = throughWords(from, to, wide, m[f32][to])
		}
	}
	for _, byteType := range []tensor.DType{u8, truth} {
		m[byteType][f32] = castWith(vec.U8ToF32)
		m[byteType][i32] = castWith(vec.U8ToI32)
		m[byteType][i64] = castWith(vec.U8ToI64)
	}
	for _, to := range []tensor.DType{u8, i8} {
		m[f32][to] = castWith(vec.F32ToU8)
		m[i32][to] = castWith(vec.I32ToU8)
		m[i64][to] = castWith(vec.I64ToU8)
		m[to][truth] = castWith(vec.U8ToBool)
		m[truth][to] = func(dst, src []byte) { copy(dst, src) }
	}
	for _, half := range []tensor.DType{f16, bf16} {
		m[half][f32] = func(dst, src []byte) { WidenHalfFast(memory.FromRaw[float32](dst), src, half) }
		m[f32][half] = func(dst, src []byte) { NarrowHalfFast(dst, memory.FromRaw[float32](src), half) }
		for _, to := range []tensor.DType{u8, i8, i32, i64, truth, f64} {
			m[half][to] = throughWords(half, to, m[half][f32], m[f32][to])
		}
		m[f64][half] = throughWords(f64, half, oddFloats, m[f32][half])
		for _, from := range []tensor.DType{u8, i8, truth} {
			m[from][half] = throughWords(from, half, m[from][f32], m[f32][half])
		}
	}
	// Integers that float32 rounds are beyond the range of float16. bfloat16 would be rounded
	// twice.
	for _, from := range []tensor.DType{i32, i64} {
		m[from][f16] = throughWords(from, f16, m[from][f32], m[f32][f16])
	}
	for _, from := range []tensor.DType{u8, i8, truth} {
		m[from][f64] = throughWords(from, f64, m[from][f32], m[f32][f64])
	}
	m[f64][truth] = func(dst, src []byte) {
		var twice [256]int64 // without the sign
		x := memory.FromRaw[int64](src)
		for n := 0; len(x) > 0; dst, x = dst[n:], x[n:] {
			n = min(len(x), len(twice))
			vec.AddI64(cpu.Active(), twice[:n], x, x)
			vec.I64ToBool(cpu.Active(), dst[:n], twice[:n])
		}
	}
	for _, to := range []tensor.DType{u8, i8} {
		m[f64][to] = throughWords(f64, to, m[f64][i32], m[i32][to])
	}
	// Conversions between integers only depend on the sign of those that become longer.
	for _, s := range []struct{ signed, unsigned tensor.DType }{{i8, u8}, {i32, tensor.TypeUint32},
		{i64, tensor.TypeUint64}} {
		m[s.signed][s.unsigned] = func(dst, src []byte) { copy(dst, src) }
		m[s.unsigned][s.signed] = m[s.signed][s.unsigned]
		for _, d := range []tensor.DType{i8, u8, i32, i64, truth} {
			if k := m[d][s.signed]; k != nil && d != s.unsigned {
				m[d][s.unsigned] = k
			}
			if k := m[s.signed][d]; k != nil && d != s.unsigned && (d == truth || d.Bits() < s.signed.Bits()) {
				m[s.unsigned][d] = k
			}
		}
	}
	// The low bits of bytes become packed integers.
	for _, to := range []tensor.DType{tensor.TypeInt4, tensor.TypeUint4, tensor.TypeInt2, tensor.TypeUint2} {
		pack := func(dst, src []byte) { memory.PackUint(dst, src, to.Bits()) }
		for _, from := range []tensor.DType{u8, i8, truth} {
			m[from][to] = pack
		}
		for _, from := range []tensor.DType{i32, tensor.TypeUint32, i64, tensor.TypeUint64} {
			m[from][to] = compose(from, u8, to, m[from][u8], pack)
		}
	}
	return m
}

// oddFloats converts float64 to float32 so that rounding the result to 16 bits gives the same as
// rounding the float64: where the lower bits of a result may be those of a tie, it becomes the
// neighbour with the odd significand if it was rounded.
func oddFloats(dst, src []byte) {
	y, x := memory.FromRaw[float32](dst), memory.FromRaw[float64](src)
	vec.F64ToF32(cpu.Active(), y, x)
	for i, v := range y {
		if b := math.Float32bits(v); b&0xfff == 0 && float64(v) != x[i] && v == v {
			if math.Abs(float64(v)) < math.Abs(x[i]) {
				b++
			} else {
				b--
			}
			y[i] = math.Float32frombits(b)
		}
	}
}

// throughWords composes two kernels. What is between them has four bytes.
func throughWords(from, to tensor.DType, first, second castKernel) castKernel {
	return compose(from, tensor.TypeFloat32, to, first, second)
}

// compose composes two kernels, block by block, with elements of at most four bytes between them.
func compose(from, between, to tensor.DType, first, second castKernel) castKernel {
	const block = 512
	size, mid, bits := from.Bits()/8, between.Bits()/8, to.Bits()
	return func(dst, src []byte) {
		var middle [4 * block]byte
		for len(src) > 0 {
			n := min(block, len(src)/size)
			m := middle[:mid*n]
			first(m, src[:n*size])
			to := (n*bits + 7) / 8
			second(dst[:to], m)
			dst, src = dst[to:], src[n*size:]
		}
	}
}
