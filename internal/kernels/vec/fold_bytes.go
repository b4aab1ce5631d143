package vec

import (
	"math"
	"unsafe"

	"github.com/onward-ml/onward/internal/cpu"
)

// byteExtreme describes the maximum or minimum of int8 or uint8 and the kernel of two operands that
// computes it.
type byteExtreme int

const (
	mostU8 byteExtreme = iota
	leastU8
	mostI8
	leastI8
)

func (e byteExtreme) pairs(l cpu.Level, dst, a, b []uint8) {
	switch e {
	case mostU8:
		MaxU8(l, dst, a, b)
	case leastU8:
		MinU8(l, dst, a, b)
	case mostI8:
		MaxI8(l, signedBytes(dst), signedBytes(a), signedBytes(b))
	default:
		MinI8(l, signedBytes(dst), signedBytes(a), signedBytes(b))
	}
}

func signedBytes(x []uint8) []int8 {
	return unsafe.Slice((*int8)(unsafe.Pointer(unsafe.SliceData(x))), len(x))
}

// fold combines x to at most 64 bytes, which it returns in part.
func (e byteExtreme) fold(l cpu.Level, part *[256]uint8, x []uint8) []uint8 {
	h := min(len(part), (len(x)+1)/2)
	if len(x) <= 64 {
		h = len(x)
	}
	copy(part[:h], x)
	for x = x[h:]; len(x) > 0; x = x[min(h, len(x)):] {
		n := min(h, len(x))
		e.pairs(l, part[:n], part[:n], x[:n])
	}
	for h > 64 { // the last half may overlap the first one
		half := max(64, (h+1)/2)
		e.pairs(l, part[:half], part[:half], part[h-half:h])
		h = half
	}
	return part[:h]
}

// ReduceMaxU8 returns the maximum of x, or 0 if x is empty.
func ReduceMaxU8(l cpu.Level, x []uint8) uint8 {
	var part [256]uint8
	return shortMax(0, mostU8.fold(l, &part, x))
}

// ReduceMinU8 returns the minimum of x, or 255 if x is empty.
func ReduceMinU8(l cpu.Level, x []uint8) uint8 {
	var part [256]uint8
	return shortMin(math.MaxUint8, leastU8.fold(l, &part, x))
}

// ReduceMaxI8 returns the maximum of x, or −128 if x is empty.
func ReduceMaxI8(l cpu.Level, x []int8) int8 {
	var part [256]uint8
	return shortMax(math.MinInt8, signedBytes(mostI8.fold(l, &part, unsignedBytes(x))))
}

// ReduceMinI8 returns the minimum of x, or 127 if x is empty.
func ReduceMinI8(l cpu.Level, x []int8) int8 {
	var part [256]uint8
	return shortMin(math.MaxInt8, signedBytes(leastI8.fold(l, &part, unsignedBytes(x))))
}

func unsignedBytes(x []int8) []uint8 {
	return unsafe.Slice((*uint8)(unsafe.Pointer(unsafe.SliceData(x))), len(x))
}
