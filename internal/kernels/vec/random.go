package vec

import "github.com/onward-ml/onward/internal/cpu"

// TwistU32 computes words of the state of the Mersenne Twister MT19937 (Matsumoto and Nishimura,
// ACM TOMACS 8(1), 1998). s holds the previous words, next those that follow them, m those 397
// ahead:
//
//	dst[i] = m[i] ^ (s[i]&0x80000000|next[i]&0x7fffffff)>>1 ^ next[i]&1*0x9908b0df
//
// dst may be s, and may begin 16 or more elements after m.
func TwistU32(l cpu.Level, dst, s, next, m []uint32) { twistU32(l, dst, s, next, m) }

func twistU32Generic(dst, s, next, m []uint32) {
	s, next, m = s[:len(dst)], next[:len(dst)], m[:len(dst)]
	for i := range dst {
		y := s[i]&0x80000000 | next[i]&0x7fffffff
		dst[i] = m[i] ^ y>>1 ^ -(y&1)&0x9908b0df
	}
}

// UniformsF64 makes a number in [0, 1) with 53 random bits of every two words of the state of
// MT19937.
func UniformsF64(l cpu.Level, dst []float64, words []uint32) { uniformsF64(l, dst, words) }

func uniformsF64Generic(dst []float64, words []uint32) {
	words = words[:2*len(dst)]
	for i := range dst {
		dst[i] = UniformF64(Temper(words[2*i]), Temper(words[2*i+1]))
	}
}

// UniformF64 returns the number in [0, 1) with 27 bits of a and 26 of b.
func UniformF64(a, b uint32) float64 { return float64(uint64(a>>5)<<26|uint64(b>>6)) / (1 << 53) }

// Temper returns the random number of a word of the state of MT19937.
func Temper(y uint32) uint32 {
	y ^= y >> 11
	y ^= y << 7 & 0x9d2c5680
	y ^= y << 15 & 0xefc60000
	return y ^ y>>18
}
