package kit

import (
	"math"

	"github.com/onward-ml/onward/internal/kernels/vec"
)

// OrderF32 returns a number of 32 bits in the order of float32: 0 and -0 are equal, and NaN is
// above all.
func OrderF32(v float32) int64 { return int64(vec.Order(v + 0)) } // +0 for −0

// OrderF64 returns a number in the order of float64: 0 and -0 are equal, and NaN is above all.
func OrderF64(v float64) int64 {
	switch b := int64(math.Float64bits(v)); {
	case v != v:
		return math.MaxInt64
	case v == 0:
		return 0
	default:
		return b ^ b>>63&math.MaxInt64
	}
}
