package vec

import (
	"encoding/binary"
	"unsafe"

	"github.com/onward-ml/onward/internal/cpu"
)

// LessF32 computes dst[i] = a[i] < b[i].
func LessF32(l cpu.Level, dst []bool, a, b []float32) { lessF32(l, dst, a, b) }

// LessOrEqualF32 computes dst[i] = a[i] <= b[i].
func LessOrEqualF32(l cpu.Level, dst []bool, a, b []float32) { lessOrEqualF32(l, dst, a, b) }

// EqualF32 computes dst[i] = a[i] == b[i].
func EqualF32(l cpu.Level, dst []bool, a, b []float32) { equalF32(l, dst, a, b) }

// SelectU8 sets dst[i] to x[i] if which[i] is true, otherwise to y[i].
func SelectU8(l cpu.Level, dst, x, y []uint8, which []bool) { selectU8(l, dst, x, y, which) }

// SelectU16 is [SelectU8] for elements of 16 bits.
func SelectU16(l cpu.Level, dst, x, y []uint16, which []bool) { selectU16(l, dst, x, y, which) }

// SelectU32 is [SelectU8] for elements of 32 bits.
func SelectU32(l cpu.Level, dst, x, y []uint32, which []bool) { selectU32(l, dst, x, y, which) }

// SelectU64 is [SelectU8] for elements of 64 bits.
func SelectU64(l cpu.Level, dst, x, y []uint64, which []bool) { selectU64(l, dst, x, y, which) }

func lessF32Generic(dst []bool, a, b []float32) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] < b[i]
	}
}

func lessOrEqualF32Generic(dst []bool, a, b []float32) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] <= b[i]
	}
}

func equalF32Generic(dst []bool, a, b []float32) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] == b[i]
	}
}

// selectU8Generic processes eight elements as one word.
func selectU8Generic(dst, x, y []uint8, which []bool) {
	w, order := unsafe.Slice((*uint8)(unsafe.Pointer(unsafe.SliceData(which[:len(dst)]))), len(dst)),
		binary.LittleEndian
	x, y = x[:len(dst)], y[:len(dst)]
	for ; len(dst) >= 8; dst, w, x, y = dst[8:], w[8:], x[8:], y[8:] {
		mask, b := order.Uint64(w)*0xff, order.Uint64(y)
		order.PutUint64(dst, b^(order.Uint64(x)^b)&mask)
	}
	for i, v := range w {
		dst[i] = y[i] ^ (x[i]^y[i])&-v
	}
}

func selectLoop[T uint16 | uint32 | uint64](dst, x, y []T, which []bool) {
	x, y, which = x[:len(dst)], y[:len(dst)], which[:len(dst)]
	for i := range dst {
		v, u := y[i], x[i]
		if which[i] {
			v = u
		}
		dst[i] = v
	}
}

// numbers lists the element types that share the loops of comparisons.
type numbers interface {
	foldNumber | uint8 | int8 | uint32
}

func lessLoop[T numbers](dst []bool, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] < b[i]
	}
}

func lessOrEqualLoop[T numbers](dst []bool, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] <= b[i]
	}
}

func equalLoop[T numbers](dst []bool, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] == b[i]
	}
}

// LessI32 computes dst[i] = a[i] < b[i].
func LessI32(l cpu.Level, dst []bool, a, b []int32) { lessI32(l, dst, a, b) }

// LessI64 computes dst[i] = a[i] < b[i].
func LessI64(l cpu.Level, dst []bool, a, b []int64) { lessI64(l, dst, a, b) }

// LessOrEqualI32 computes dst[i] = a[i] <= b[i].
func LessOrEqualI32(l cpu.Level, dst []bool, a, b []int32) { lessOrEqualI32(l, dst, a, b) }

// LessOrEqualI64 computes dst[i] = a[i] <= b[i].
func LessOrEqualI64(l cpu.Level, dst []bool, a, b []int64) { lessOrEqualI64(l, dst, a, b) }

// EqualI32 computes dst[i] = a[i] == b[i].
func EqualI32(l cpu.Level, dst []bool, a, b []int32) { equalI32(l, dst, a, b) }

// EqualI64 computes dst[i] = a[i] == b[i].
func EqualI64(l cpu.Level, dst []bool, a, b []int64) { equalI64(l, dst, a, b) }

// LessF64 computes dst[i] = a[i] < b[i].
func LessF64(l cpu.Level, dst []bool, a, b []float64) { lessF64(l, dst, a, b) }

// LessOrEqualF64 computes dst[i] = a[i] <= b[i].
func LessOrEqualF64(l cpu.Level, dst []bool, a, b []float64) { lessOrEqualF64(l, dst, a, b) }

// EqualF64 computes dst[i] = a[i] == b[i].
func EqualF64(l cpu.Level, dst []bool, a, b []float64) { equalF64(l, dst, a, b) }

// LessU32 computes dst[i] = a[i] < b[i].
func LessU32(l cpu.Level, dst []bool, a, b []uint32) { lessU32(l, dst, a, b) }

// LessOrEqualU32 computes dst[i] = a[i] <= b[i].
func LessOrEqualU32(l cpu.Level, dst []bool, a, b []uint32) { lessOrEqualU32(l, dst, a, b) }

// LessU8 computes dst[i] = a[i] < b[i].
func LessU8(l cpu.Level, dst []bool, a, b []uint8) { lessU8(l, dst, a, b) }

// LessOrEqualU8 computes dst[i] = a[i] <= b[i].
func LessOrEqualU8(l cpu.Level, dst []bool, a, b []uint8) { lessOrEqualU8(l, dst, a, b) }

// EqualU8 computes dst[i] = a[i] == b[i].
func EqualU8(l cpu.Level, dst []bool, a, b []uint8) { equalU8(l, dst, a, b) }

// LessI8 computes dst[i] = a[i] < b[i].
func LessI8(l cpu.Level, dst []bool, a, b []int8) { lessI8(l, dst, a, b) }

// LessOrEqualI8 computes dst[i] = a[i] <= b[i].
func LessOrEqualI8(l cpu.Level, dst []bool, a, b []int8) { lessOrEqualI8(l, dst, a, b) }

// equalBytes processes eight bytes as one word, of which it leaves the high bit of each byte that
// is not 0 in x^y, and moves the others down.
func equalBytes(dst []bool, a, b []uint8) {
	w, order := unsafe.Slice((*uint8)(unsafe.Pointer(unsafe.SliceData(dst))), len(dst)), binary.LittleEndian
	a, b = a[:len(w)], b[:len(w)]
	for ; len(w) >= 8; w, a, b = w[8:], a[8:], b[8:] {
		x := order.Uint64(a) ^ order.Uint64(b)
		order.PutUint64(w, ^(x&lowBits+lowBits|x)&highBits>>7)
	}
	equalLoop(dst[len(dst)-len(w):], a, b)
}
