package vec

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
)

// MapU8 computes
//
//	for i, v := range x[:len(dst)] {
//		dst[i] = t[v]
//	}
func MapU8(l cpu.Level, dst, x []uint8, t *[256]uint8) { mapU8(l, dst, x, t) }

func mapU8Generic(dst, x []uint8, t *[256]uint8) {
	for i, v := range x[:len(dst)] {
		dst[i] = t[v]
	}
}

// AbsI32 computes the absolute values. That of the least integer is itself.
func AbsI32(l cpu.Level, dst, x []int32) { absI32(l, dst, x) }

func absI32Generic(dst, x []int32) {
	for i, v := range x[:len(dst)] {
		dst[i] = max(v, -v)
	}
}

// AbsI64 computes the absolute values. That of the least integer is itself.
func AbsI64(l cpu.Level, dst, x []int64) { absI64(l, dst, x) }

func absI64Generic(dst, x []int64) {
	for i, v := range x[:len(dst)] {
		dst[i] = max(v, -v)
	}
}

// OrderNaN is the number of NaN in the order of [OrderF32].
const OrderNaN = 0xff000003

// OrderF32 computes integers with the order of the numbers: 1 for −Inf, less for −0 than for 0, and
// [OrderNaN], which is the greatest, for NaN. dst may share its memory with x.
func OrderF32(l cpu.Level, dst []uint32, x []float32) { orderF32(l, dst, x) }

func orderF32Generic(dst []uint32, x []float32) {
	for i, v := range x[:len(dst)] {
		dst[i] = Order(v)
	}
}

// Order is [OrderF32] of one number.
func Order(v float32) uint32 {
	b := math.Float32bits(v)
	return min((b^(uint32(int32(b)>>31)|1<<31))-0x7fffff, OrderNaN-1) + 1 // NaN with a sign bit wraps around
}

// SignI32 computes dst[i] = −1, 0 or 1.
func SignI32(l cpu.Level, dst, x []int32) { signI32(l, dst, x) }

func signI32Generic(dst, x []int32) {
	for i, v := range x[:len(dst)] {
		dst[i] = max(min(v, 1), -1)
	}
}

// AbsF64 computes the absolute values.
func AbsF64(l cpu.Level, dst, x []float64) { absF64(l, dst, x) }

func absF64Generic(dst, x []float64) {
	for i, v := range x[:len(dst)] {
		dst[i] = math.Abs(v)
	}
}

// SignF64 computes dst[i] = −1 or 1, or x[i] if it is ±0 or NaN.
func SignF64(l cpu.Level, dst, x []float64) { signF64(l, dst, x) }

// signF64Generic has no branches that depend on elements.
func signF64Generic(dst, x []float64) {
	for i, v := range x[:len(dst)] {
		b := math.Float64bits(v)
		sized := b &^ (1 << 63)
		one := uint64(0)
		if sized != 0 {
			one = math.Float64bits(1)
		}
		if sized > math.Float64bits(math.Inf(1)) {
			one = sized
		}
		dst[i] = math.Float64frombits(one | b&(1<<63))
	}
}

// SignF32 is [SignF64] for float32.
func SignF32(l cpu.Level, dst, x []float32) { signF32(l, dst, x) }

func signF32Generic(dst, x []float32) {
	for i, v := range x[:len(dst)] {
		b := math.Float32bits(v)
		sized := b &^ (1 << 31)
		one := uint32(0)
		if sized != 0 {
			one = math.Float32bits(1)
		}
		if sized > math.Float32bits(float32(math.Inf(1))) {
			one = sized
		}
		dst[i] = math.Float32frombits(one | b&(1<<31))
	}
}

// SqrtF64 computes the square roots.
func SqrtF64(l cpu.Level, dst, x []float64) { sqrtF64(l, dst, x) }

func sqrtF64Generic(dst, x []float64) {
	for i, v := range x[:len(dst)] {
		dst[i] = math.Sqrt(v)
	}
}

// DivI32 computes dst[i] = a[i] / b[i], where b[i] is not 0. The least integer divided by −1 is
// itself. It divides as float64, which takes half the time: a quotient of two int32 that is not an
// integer differs from the nearest one by more than the rounding.
func DivI32(l cpu.Level, dst, a, b []int32) { divI32(l, dst, a, b) }

func divI32Generic(dst, a, b []int32) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i, v := range a {
		dst[i] = int32(int64(float64(v) / float64(b[i])))
	}
}

// InfiniteF16 computes whether the float16 values with bits x are infinite.
func InfiniteF16(l cpu.Level, dst []bool, x []uint16) { infiniteF16(l, dst, x) }

func infiniteF16Generic(dst []bool, x []uint16) {
	for i, v := range x[:len(dst)] {
		dst[i] = v&0x7fff == 0x7c00
	}
}

// NaNF16 computes whether the float16 values with bits x are NaN.
func NaNF16(l cpu.Level, dst []bool, x []uint16) { nanF16(l, dst, x) }

func nanF16Generic(dst []bool, x []uint16) {
	for i, v := range x[:len(dst)] {
		dst[i] = v&0x7fff > 0x7c00
	}
}

// SignF16 computes the signs of the float16 values with bits x: ±1, ±0 or the NaN itself.
func SignF16(l cpu.Level, dst, x []uint16) { signF16(l, dst, x) }

func signF16Generic(dst, x []uint16) {
	for i, v := range x[:len(dst)] {
		if v&0x7fff-1 < 0x7c00 {
			v = v&0x8000 | 0x3c00
		}
		dst[i] = v
	}
}
