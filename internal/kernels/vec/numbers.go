package vec

import (
	"encoding/binary"

	"github.com/onward-ml/onward/internal/cpu"
)

// The kernels of this file compute an element of dst from those of a and b with the same index. dst
// may be a or b.

// AddI32 stores sums. They wrap around.
func AddI32(l cpu.Level, dst, a, b []int32) { addI32(l, dst, a, b) }

// SubI32 stores differences. They wrap around.
func SubI32(l cpu.Level, dst, a, b []int32) { subI32(l, dst, a, b) }

// MulI32 stores products. They wrap around.
func MulI32(l cpu.Level, dst, a, b []int32) { mulI32(l, dst, a, b) }

// MaxI32 stores the larger elements.
func MaxI32(l cpu.Level, dst, a, b []int32) { maxI32(l, dst, a, b) }

// MinI32 stores the smaller elements.
func MinI32(l cpu.Level, dst, a, b []int32) { minI32(l, dst, a, b) }

// AddI64 stores sums. They wrap around.
func AddI64(l cpu.Level, dst, a, b []int64) { addI64(l, dst, a, b) }

// SubI64 stores differences. They wrap around.
func SubI64(l cpu.Level, dst, a, b []int64) { subI64(l, dst, a, b) }

// MulI64 stores products. They wrap around.
func MulI64(l cpu.Level, dst, a, b []int64) { mulI64(l, dst, a, b) }

// MaxI64 stores the larger elements.
func MaxI64(l cpu.Level, dst, a, b []int64) { maxI64(l, dst, a, b) }

// MinI64 stores the smaller elements.
func MinI64(l cpu.Level, dst, a, b []int64) { minI64(l, dst, a, b) }

// AddF64 stores sums.
func AddF64(l cpu.Level, dst, a, b []float64) { addF64(l, dst, a, b) }

// SubF64 stores differences.
func SubF64(l cpu.Level, dst, a, b []float64) { subF64(l, dst, a, b) }

// MulF64 stores products.
func MulF64(l cpu.Level, dst, a, b []float64) { mulF64(l, dst, a, b) }

// DivF64 stores quotients.
func DivF64(l cpu.Level, dst, a, b []float64) { divF64(l, dst, a, b) }

// MaxF64 stores the larger elements, NaN if one is NaN.
func MaxF64(l cpu.Level, dst, a, b []float64) { maxF64(l, dst, a, b) }

// MinF64 stores the smaller elements, NaN if one is NaN.
func MinF64(l cpu.Level, dst, a, b []float64) { minF64(l, dst, a, b) }

// AddU8 stores sums. They wrap around.
func AddU8(l cpu.Level, dst, a, b []uint8) { addU8(l, dst, a, b) }

// SubU8 stores differences. They wrap around.
func SubU8(l cpu.Level, dst, a, b []uint8) { subU8(l, dst, a, b) }

// MulU8 stores products. They wrap around.
func MulU8(l cpu.Level, dst, a, b []uint8) { mulU8(l, dst, a, b) }

// MaxU8 stores the larger elements.
func MaxU8(l cpu.Level, dst, a, b []uint8) { maxU8(l, dst, a, b) }

// MinU8 stores the smaller elements.
func MinU8(l cpu.Level, dst, a, b []uint8) { minU8(l, dst, a, b) }

// MaxI8 stores the larger elements.
func MaxI8(l cpu.Level, dst, a, b []int8) { maxI8(l, dst, a, b) }

// MinI8 stores the smaller elements.
func MinI8(l cpu.Level, dst, a, b []int8) { minI8(l, dst, a, b) }

// MaxU32 stores the larger elements.
func MaxU32(l cpu.Level, dst, a, b []uint32) { maxU32(l, dst, a, b) }

// MinU32 stores the smaller elements.
func MinU32(l cpu.Level, dst, a, b []uint32) { minU32(l, dst, a, b) }

// MaxU64 stores the larger elements.
func MaxU64(l cpu.Level, dst, a, b []uint64) { maxU64(l, dst, a, b) }

// MinU64 stores the smaller elements.
func MinU64(l cpu.Level, dst, a, b []uint64) { minU64(l, dst, a, b) }

// extremeNumber lists the types of the kernels of maxima and minima.
type extremeNumber interface {
	foldNumber | uint8 | int8 | uint32 | uint64
}

func addLoop[T foldNumber | uint8](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] + b[i]
	}
}

func subLoop[T foldNumber | uint8](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] - b[i]
	}
}

func mulLoop[T foldNumber | uint8](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] * b[i]
	}
}

const (
	lowBits  = 0x7f7f7f7f7f7f7f7f
	highBits = ^uint64(lowBits)
)

// addBytes adds eight bytes as one word: the low bits of each, and then the high ones without
// carry.
func addBytes(dst, a, b []uint8) {
	a, b = a[:len(dst)], b[:len(dst)]
	for order := binary.LittleEndian; len(dst) >= 8; dst, a, b = dst[8:], a[8:], b[8:] {
		x, y := order.Uint64(a), order.Uint64(b)
		order.PutUint64(dst, (x&lowBits+y&lowBits)^(x^y)&highBits)
	}
	addLoop(dst, a, b)
}

// subBytes is [addBytes] for differences.
func subBytes(dst, a, b []uint8) {
	a, b = a[:len(dst)], b[:len(dst)]
	for order := binary.LittleEndian; len(dst) >= 8; dst, a, b = dst[8:], a[8:], b[8:] {
		x, y := order.Uint64(a), order.Uint64(b)
		order.PutUint64(dst, (x|highBits-y&lowBits)^(x^^y)&highBits)
	}
	subLoop(dst, a, b)
}

func divLoop[T foldNumber](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] / b[i]
	}
}

func maxLoop[T extremeNumber](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = max(a[i], b[i])
	}
}

func minLoop[T extremeNumber](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = min(a[i], b[i])
	}
}
