package vec

import (
	"math"
	"slices"

	"github.com/onward-ml/onward/internal/cpu"
)

// lanes512 is the number of elements of which kernels for AVX-512 process multiples.
const lanes512 = 16

// ExpF64 computes dst[i] = exp(x[i]) within 1 ULP. An element's result does not depend on its
// index.
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

// expF64Generic has inlined iterations, which overlap; those of a loop over math.Exp do not. The
// method is that of FreeBSD's e_exp.c: x = k·ln 2 + r, and a rational approximation of exp(r).
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
		c := r - t*(1.66666666666666657415e-01+
			t*(-2.77777777770155933842e-03+
				t*(6.61375632143793436117e-05+t*(-1.65339022054652515390e-06+t*4.13813679705723846039e-08))))
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

// LogF64 computes dst[i] = log(x[i]) within 1 ULP. An element's result does not depend on its
// index.
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
		t1 := s2 * (6.666666666666735130e-01 +
			s4*(2.857142874366239149e-01+s4*(1.818357216161805012e-01+s4*1.479819860511658591e-01)))
		t2 := s4 * (3.999999999940941908e-01 + s4*(2.222219843214978396e-01+s4*1.531383769920937332e-01))
		half := 0.5 * f * f
		dst[i] = k*ln2Hi - ((half - (s*(half+(t1+t2)) + k*ln2Lo)) - f)
	}
}

// SigmoidF64 computes dst[i] = 1/(1+exp(−x[i])). dst may be x.
func SigmoidF64(l cpu.Level, dst, x []float64) {
	for n := 0; len(dst) > 0; dst, x = dst[n:], x[n:] {
		n = min(len(dst), doublesBlock)
		d := dst[:n]
		for i, v := range x[:n] {
			d[i] = -v
		}
		ExpF64(l, d, d)
		for i, v := range d {
			d[i] = 1 / (1 + v)
		}
	}
}

// doublesBlock is the number of elements that pass through several loops while they are in the
// cache.
const doublesBlock = 256

// TanhF64 computes dst[i] = tanh(x[i]) within 3 ULP. dst may be x. The method is that of the Cephes
// library: a rational approximation below 0.625, and 1 − 2/(exp(2x)+1) from there on. Each element
// divides once, without a branch.
func TanhF64(l cpu.Level, dst, x []float64) {
	if l == cpu.AVX512 {
		padded(l, dst, x, tanhF64)
	} else {
		tanhF64Generic(dst, x)
	}
}

func tanhF64Generic(dst, x []float64) {
	var powers [doublesBlock]float64
	for n := 0; len(dst) > 0; dst, x = dst[n:], x[n:] {
		n = min(len(dst), doublesBlock)
		e := powers[:n]
		for i, v := range x[:n] {
			e[i] = 2 * math.Abs(v)
		}
		expF64Generic(e, e)
		d := dst[:n]
		for i, v := range x[:n] {
			s := v * v
			small := uint64(int64(math.Float64bits(math.Abs(v)-0.625)) >> 63)
			pick := func(a, b float64) float64 {
				return math.Float64frombits(math.Float64bits(a)&small | math.Float64bits(b)&^small)
			}
			p := v * s * ((-9.64399179425052238628e-1*s-9.92877231001918586564e1)*s - 1.61468768441708447952e3)
			q := ((s+1.12811678491632931402e2)*s+2.23548839060100448583e3)*s + 4.84406305325125486048e3
			d[i] = math.Copysign(pick(v, math.Copysign(1, v))+pick(p, math.Copysign(2, -v))/pick(q, e[i]+1), v)
		}
	}
}

// SinF64 computes dst[i] = sin(x[i]) within 2 ULP of the result or of 2⁻⁵⁴, whichever is larger.
// dst may be x.
func SinF64(l cpu.Level, dst, x []float64) {
	if l == cpu.AVX512 {
		sines(l, dst, x, sinF64, math.Sin)
	} else {
		sinF64Generic(dst, x)
	}
}

func sinF64Generic(dst, x []float64) {
	for i, v := range x[:len(dst)] {
		if !(math.Abs(v) < mostReduced) || v == 0 { // the sum of quarterWave has no sign for −0
			dst[i] = math.Sin(v)
			continue
		}
		dst[i] = quarterWave(v, 0)
	}
}

// CosF64 computes dst[i] = cos(x[i]), as precise as [SinF64]. dst may be x.
func CosF64(l cpu.Level, dst, x []float64) {
	if l == cpu.AVX512 {
		sines(l, dst, x, cosF64, math.Cos)
	} else {
		cosF64Generic(dst, x)
	}
}

func cosF64Generic(dst, x []float64) {
	for i, v := range x[:len(dst)] {
		if !(math.Abs(v) < mostReduced) {
			dst[i] = math.Cos(v)
			continue
		}
		dst[i] = quarterWave(v, 1)
	}
}

// sines runs a kernel, and then computes the numbers that it cannot reduce with of.
func sines(l cpu.Level, dst, x []float64, kernel func(l cpu.Level, dst, x []float64), of func(float64) float64) {
	x = x[:len(dst)]
	large := func(v float64) bool { return !(math.Abs(v) < mostReduced) }
	var kept [doublesBlock]float64
	for n := 0; len(dst) > 0; dst, x = dst[n:], x[n:] {
		n = min(len(dst), doublesBlock)
		some := slices.ContainsFunc(x[:n], large)
		if some {
			copy(kept[:], x[:n]) // dst may be x
		}
		padded(l, dst[:n], x[:n], kernel)
		for i := 0; some && i < n; i++ {
			if large(kept[i]) {
				dst[i] = of(kept[i])
			}
		}
	}
}

// mostReduced is the magnitude up to which multiples of the parts of π/2 in quarterWave are exact.
const mostReduced = 1 << 27

// quarterWave returns sin(v + quarters·π/2), by the method and the coefficients of the Cephes
// library, without a branch. Iterations of a loop overlap.
func quarterWave(v float64, quarters uint64) float64 {
	const (
		magic = 0x1.8p52 // adding it rounds to an integer
		pi2a  = 2 * 7.85398125648498535156e-1
		pi2b  = 2 * 3.77489470793079817668e-8
		pi2c  = 2 * 2.69515142907905952645e-15
	)
	shifted := v*(2/math.Pi) + magic
	k := shifted - magic
	n := math.Float64bits(shifted) + quarters
	r := ((v - k*pi2a) - k*pi2b) - k*pi2c
	s := r * r
	sin := r +
		r*s*(((((1.58962301576546568060e-10*s-2.50507477628578072866e-8)*s+2.75573136213857245213e-6)*s-
			1.98412698295895385996e-4)*s+8.33333333332211858878e-3)*s-1.66666666666666307295e-1)
	cos := 1 - 0.5*s +
		s*s*(((((-1.13585365213876817300e-11*s+2.08757008419747316778e-9)*s-2.75573141792967388112e-7)*s+
			2.48015872888517045348e-5)*s-1.38888888888730564116e-3)*s+4.16666666666665929218e-2)
	odd := -(n & 1)
	return math.Float64frombits((math.Float64bits(cos)&odd | math.Float64bits(sin)&^odd) ^ n>>1<<63)
}
