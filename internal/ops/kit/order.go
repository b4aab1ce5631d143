package kit

import "math"

// OrderF32 returns a number of 32 bits in the order of float32: 0 and -0 are equal, and NaN is above all.
func OrderF32(v float32) int64 {
	b := int32(math.Float32bits(v))
	k := b ^ b>>31&math.MaxInt32
	if b == math.MinInt32 {
		k = 0
	}
	if b&math.MaxInt32 > 0x7f800000 {
		k = math.MaxInt32
	}
	return int64(k)
}

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
