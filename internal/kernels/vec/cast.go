package vec

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
)

// The conversions of Cast between types other than narrow floats. Bools are bytes. Numbers out of
// the range of an integer type, and NaN, become the smallest int32 or int64.

type (
	castFloat   interface{ float32 | float64 }
	castInteger interface {
		int8 | uint8 | int16 | uint16 | int32 | int64
	}
	castNumber interface{ castFloat | castInteger }
)

func castLoop[D, S castNumber](dst []D, x []S) {
	for i, v := range x[:len(dst)] {
		dst[i] = D(v)
	}
}

func truncateLoop32[D castInteger, S castFloat](dst []D, x []S) {
	for i, v := range x[:len(dst)] {
		n := int32(math.MinInt32)
		if v >= -1<<31 && v < 1<<31 {
			n = int32(v)
		}
		dst[i] = D(n)
	}
}

func truncateLoop64[S castFloat](dst []int64, x []S) {
	for i, v := range x[:len(dst)] {
		n := int64(math.MinInt64)
		if v >= -1<<63 && v < 1<<63 {
			n = int64(v)
		}
		dst[i] = n
	}
}

func saturateLoop[D int16 | uint16](dst []D, x []float32, least, most int32) {
	for i, v := range x[:len(dst)] {
		n := int32(math.MinInt32)
		if v >= -1<<31 && v < 1<<31 {
			n = int32(v)
		}
		dst[i] = D(min(max(n, least), most))
	}
}

func notZeroLoop[S castNumber](dst []uint8, x []S) {
	for i, v := range x[:len(dst)] {
		dst[i] = 0
		if v != 0 {
			dst[i] = 1
		}
	}
}

// F32ToU8 sets dst[i] to the low bits of int32(x[i]), truncated.
func F32ToU8(l cpu.Level, dst []uint8, x []float32) { f32ToU8(l, dst, x) }

func f32ToU8Generic(dst []uint8, x []float32) { truncateLoop32(dst, x) }

// F32ToI16 computes int32(x[i]), truncated, and limits it to the range of int16. Numbers out of the
// range of int32 become the least int16.
func F32ToI16(l cpu.Level, dst []int16, x []float32) { f32ToI16(l, dst, x) }

func f32ToI16Generic(dst []int16, x []float32) { saturateLoop(dst, x, math.MinInt16, math.MaxInt16) }

// F32ToU16 computes int32(x[i]), truncated, and limits it to the range of uint16. Numbers out of
// the range of int32 become 0.
func F32ToU16(l cpu.Level, dst []uint16, x []float32) { f32ToU16(l, dst, x) }

func f32ToU16Generic(dst []uint16, x []float32) { saturateLoop(dst, x, 0, math.MaxUint16) }

// I16ToF32 computes dst[i] = float32(x[i]).
func I16ToF32(l cpu.Level, dst []float32, x []int16) { i16ToF32(l, dst, x) }

func i16ToF32Generic(dst []float32, x []int16) { castLoop(dst, x) }

// U16ToF32 computes dst[i] = float32(x[i]).
func U16ToF32(l cpu.Level, dst []float32, x []uint16) { u16ToF32(l, dst, x) }

func u16ToF32Generic(dst []float32, x []uint16) { castLoop(dst, x) }

// I32ToU8 sets dst[i] to the low bits of x[i].
func I32ToU8(l cpu.Level, dst []uint8, x []int32) { i32ToU8(l, dst, x) }

func i32ToU8Generic(dst []uint8, x []int32) { castLoop(dst, x) }

// I64ToU8 sets dst[i] to the low bits of x[i].
func I64ToU8(l cpu.Level, dst []uint8, x []int64) { i64ToU8(l, dst, x) }

func i64ToU8Generic(dst []uint8, x []int64) { castLoop(dst, x) }

// I64ToI32 sets dst[i] to the low bits of x[i].
func I64ToI32(l cpu.Level, dst []int32, x []int64) { i64ToI32(l, dst, x) }

func i64ToI32Generic(dst []int32, x []int64) { castLoop(dst, x) }

// F32ToBool sets dst[i] to 1 if x[i] is not 0, otherwise to 0.
func F32ToBool(l cpu.Level, dst []uint8, x []float32) { f32ToBool(l, dst, x) }

func f32ToBoolGeneric(dst []uint8, x []float32) { notZeroLoop(dst, x) }

// I32ToBool sets dst[i] to 1 if x[i] is not 0, otherwise to 0.
func I32ToBool(l cpu.Level, dst []uint8, x []int32) { i32ToBool(l, dst, x) }

func i32ToBoolGeneric(dst []uint8, x []int32) { notZeroLoop(dst, x) }

// I64ToBool sets dst[i] to 1 if x[i] is not 0, otherwise to 0.
func I64ToBool(l cpu.Level, dst []uint8, x []int64) { i64ToBool(l, dst, x) }

func i64ToBoolGeneric(dst []uint8, x []int64) { notZeroLoop(dst, x) }

// U8ToBool sets dst[i] to 1 if x[i] is not 0, otherwise to 0.
func U8ToBool(l cpu.Level, dst []uint8, x []uint8) { u8ToBool(l, dst, x) }

func u8ToBoolGeneric(dst []uint8, x []uint8) { notZeroLoop(dst, x) }

// U8ToI32 computes dst[i] = int32(x[i]).
func U8ToI32(l cpu.Level, dst []int32, x []uint8) { u8ToI32(l, dst, x) }

func u8ToI32Generic(dst []int32, x []uint8) { castLoop(dst, x) }

// I8ToI32 computes dst[i] = int32(x[i]).
func I8ToI32(l cpu.Level, dst []int32, x []int8) { i8ToI32(l, dst, x) }

func i8ToI32Generic(dst []int32, x []int8) { castLoop(dst, x) }

// U8ToI64 computes dst[i] = int64(x[i]).
func U8ToI64(l cpu.Level, dst []int64, x []uint8) { u8ToI64(l, dst, x) }

func u8ToI64Generic(dst []int64, x []uint8) { castLoop(dst, x) }

// I8ToI64 computes dst[i] = int64(x[i]).
func I8ToI64(l cpu.Level, dst []int64, x []int8) { i8ToI64(l, dst, x) }

func i8ToI64Generic(dst []int64, x []int8) { castLoop(dst, x) }

// I32ToI64 computes dst[i] = int64(x[i]).
func I32ToI64(l cpu.Level, dst []int64, x []int32) { i32ToI64(l, dst, x) }

func i32ToI64Generic(dst []int64, x []int32) { castLoop(dst, x) }

// F32ToF64 computes dst[i] = float64(x[i]).
func F32ToF64(l cpu.Level, dst []float64, x []float32) { f32ToF64(l, dst, x) }

func f32ToF64Generic(dst []float64, x []float32) { castLoop(dst, x) }

// AddF32ToF64 computes dst[i] += float64(x[i]).
func AddF32ToF64(l cpu.Level, dst []float64, x []float32) { addF32ToF64(l, dst, x) }

func addF32ToF64Generic(dst []float64, x []float32) {
	for i, v := range x[:len(dst)] {
		dst[i] += float64(v)
	}
}

// I32ToF64 computes dst[i] = float64(x[i]).
func I32ToF64(l cpu.Level, dst []float64, x []int32) { i32ToF64(l, dst, x) }

func i32ToF64Generic(dst []float64, x []int32) { castLoop(dst, x) }

// F64ToF32 computes dst[i] = float32(x[i]), rounded to nearest, ties to even.
func F64ToF32(l cpu.Level, dst []float32, x []float64) { f64ToF32(l, dst, x) }

func f64ToF32Generic(dst []float32, x []float64) { castLoop(dst, x) }

// F64ToI32 computes dst[i] = int32(x[i]), truncated.
func F64ToI32(l cpu.Level, dst []int32, x []float64) { f64ToI32(l, dst, x) }

func f64ToI32Generic(dst []int32, x []float64) { truncateLoop32(dst, x) }

// F32ToI64 computes dst[i] = int64(x[i]), truncated.
func F32ToI64(l cpu.Level, dst []int64, x []float32) { f32ToI64(l, dst, x) }

func f32ToI64Generic(dst []int64, x []float32) { truncateLoop64(dst, x) }

// F64ToI64 computes dst[i] = int64(x[i]), truncated.
func F64ToI64(l cpu.Level, dst []int64, x []float64) { f64ToI64(l, dst, x) }

func f64ToI64Generic(dst []int64, x []float64) { truncateLoop64(dst, x) }

// I64ToF32 computes dst[i] = float32(x[i]), rounded to nearest, ties to even.
func I64ToF32(l cpu.Level, dst []float32, x []int64) { i64ToF32(l, dst, x) }

func i64ToF32Generic(dst []float32, x []int64) { castLoop(dst, x) }

// I64ToF64 computes dst[i] = float64(x[i]), rounded to nearest, ties to even.
func I64ToF64(l cpu.Level, dst []float64, x []int64) { i64ToF64(l, dst, x) }

func i64ToF64Generic(dst []float64, x []int64) { castLoop(dst, x) }
