package vec

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
)

// lanes512 is the number of elements of which kernels for AVX-512 process multiples.
const lanes512 = 16

// ExpF64 computes dst[i] = exp(x[i]) within 1 ULP. An element's result does not depend on its index.
func ExpF64(l cpu.Level, dst, x []float64) {
	if l == cpu.AVX512 {
		padded(l, dst, x, expF64)
	} else {
		expF64Generic(dst, x)
	}
}

// padded runs a kernel for AVX-512 also for elements that are fewer than it processes at once.
func padded(l cpu.Level, dst, x []float64, kernel func(l cpu.Level, dst, x []float64)) {
	x = x[:len(dst)]
	whole := len(dst) &^ (lanes512 - 1)
	kernel(l, dst[:whole], x[:whole])
	var rest [lanes512]float64
	if copy(rest[:], x[whole:]) > 0 {
		kernel(l, rest[:], rest[:])
		copy(dst[whole:], rest[:])
	}
}

// expF64Generic has inlined iterations, which overlap; those of a loop over math.Exp do not. The method
// is that of FreeBSD's e_exp.c: x = k·ln 2 + r, and a rational approximation of exp(r).
func expF64Generic(dst, x []float64) {
	const (
		magic = 0x1.8p52 // adding it rounds to an integer
		ln2Hi = 6.93147180369123816490e-01
		ln2Lo = 1.90821492927058770002e-10
	)
	for i, v := range x[:len(dst)] {
		if !(v > -708 && v < 709) { // NaN, or the result is infinite, 0 or subnormal
			if dst[i] = math.Exp(v); v > 709 { // the assembly of package math overflows too early
				dst[i] = math.Exp(v-1) * math.E
			}
			continue
		}
		shifted := v*math.Log2E + magic
		k := shifted - magic
		hi, lo := v-k*ln2Hi, k*ln2Lo
		r := hi - lo
		t := r * r
		c := r - t*(1.66666666666666657415e-01+t*(-2.77777777770155933842e-03+t*(6.61375632143793436117e-05+t*(-1.65339022054652515390e-06+t*4.13813679705723846039e-08))))
		y := 1 - ((lo - (r*c)/(2-c)) - hi)
		dst[i] = math.Float64frombits(math.Float64bits(y) + (math.Float64bits(shifted)-math.Float64bits(magic))<<52)
	}
}

// Log is math.Log, and right for subnormal numbers too. The assembly of package math on amd64 takes
// them for larger ones.
func Log(v float64) float64 {
	if v > 0 && v < 0x1p-1022 {
		return math.Log(v*0x1p52) - 52*math.Ln2
	}
	return math.Log(v)
}

// LogF64 computes dst[i] = log(x[i]) within 1 ULP. An element's result does not depend on its index.
func LogF64(l cpu.Level, dst, x []float64) {
	if l == cpu.AVX512 {
		padded(l, dst, x, logF64)
	} else {
		logF64Generic(dst, x)
	}
}

// logF64Generic has inlined iterations, which overlap. The method is that of FreeBSD's e_log.c: x =
// 2ᵏ·(1+f) with √½ < 1+f < √2, and log(1+f) by a polynomial in f/(2+f).
func logF64Generic(dst, x []float64) {
	const (
		root  = 0x3fe6a09e << 32 // bits of √½, nearly
		one   = 0x3ff << 52
		ln2Hi = 6.93147180369123816490e-01
		ln2Lo = 1.90821492927058770002e-10
	)
	for i, v := range x[:len(dst)] {
		if !(v >= 0x1p-1022 && v <= math.MaxFloat64) { // NaN, negative, 0, subnormal or infinite
			dst[i] = Log(v)
			continue
		}
		bits := math.Float64bits(v) + (one - root)
		k := float64(int64(bits>>52) - 0x3ff)
		f := math.Float64frombits(bits&(1<<52-1)+root) - 1
		s := f / (2 + f)
		s2 := s * s
		s4 := s2 * s2
		t1 := s2 * (6.666666666666735130e-01 + s4*(2.857142874366239149e-01+s4*(1.818357216161805012e-01+s4*1.479819860511658591e-01)))
		t2 := s4 * (3.999999999940941908e-01 + s4*(2.222219843214978396e-01+s4*1.531383769920937332e-01))
		half := 0.5 * f * f
		dst[i] = k*ln2Hi - ((half - (s*(half+(t1+t2)) + k*ln2Lo)) - f)
	}
}
