package vec

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
)

// The exponentials of softmax have arguments of at most 0. With AVX-512 they are
// 2^(n/32)·exp(r): two registers hold the 32 roots, n is added to their exponents, and a
// polynomial of degree 3 approximates exp(r). Sigmoid, Swish and Gelu by tanh replace the
// polynomial by (c+r)/(c−r), because they divide by 1+exp(−x) anyway. It saves two multiplications
// and costs one ULP.
//
// Processors take about 150 cycles for a subnormal number. In the assembly of all functions but
// ExpF32, an exponential below 2^-125 is 0.

// ExpF32 computes the following, within 1.1 ULP:
//
//	for i, v := range x[:len(dst)] {
//		dst[i] = float32(math.Exp(float64(v)))
//	}
//
// Results below the smallest normal number keep their subnormal value.
func ExpF32(l cpu.Level, dst, x []float32) { expF32(l, dst, x) }

func expF32Generic(dst, x []float32) {
	for i, v := range x[:len(dst)] {
		dst[i] = float32(math.Exp(float64(v)))
	}
}

// Expm1F32 computes the following, within 2 ULP:
//
//	for i, v := range x[:len(dst)] {
//		dst[i] = float32(math.Expm1(float64(v)))
//	}
func Expm1F32(l cpu.Level, dst, x []float32) { expm1F32(l, dst, x) }

func expm1F32Generic(dst, x []float32) {
	for i, v := range x[:len(dst)] {
		dst[i] = float32(math.Expm1(float64(v)))
	}
}

// SigmoidF32 computes the following, within 2.5 ULP:
//
//	for i, v := range x[:len(dst)] {
//		dst[i] = float32(1 / (1 + math.Exp(-float64(v))))
//	}
//
// If exp(v) is below 2^-125, the result may be 0.
func SigmoidF32(l cpu.Level, dst, x []float32) { sigmoidF32(l, dst, x) }

func sigmoidF32Generic(dst, x []float32) {
	for i, v := range x[:len(dst)] {
		dst[i] = float32(1 / (1 + math.Exp(-float64(v))))
	}
}

// TanhF32 computes the following, within 2.5 ULP:
//
//	for i, v := range x[:len(dst)] {
//		dst[i] = float32(math.Tanh(float64(v)))
//	}
//
// Results that round to 1 or -1 are exact, since DynamicQuantizeLinear of the range [-1, 1] has a
// zero point between two integers.
func TanhF32(l cpu.Level, dst, x []float32) { tanhF32(l, dst, x) }

func tanhF32Generic(dst, x []float32) {
	for i, v := range x[:len(dst)] {
		dst[i] = float32(math.Tanh(float64(v)))
	}
}

// SiluF32 computes the following, within 3 ULP:
//
//	for i, v := range x[:len(dst)] {
//		dst[i] = v / (1 + exp(-v))
//	}
//
// If exp(v) is below 2^-125, the result may be -0. -Inf gives -0.
//
// Also known as Swish.
func SiluF32(l cpu.Level, dst, x []float32) { siluF32(l, dst, x) }

func siluF32Generic(dst, x []float32) {
	for i, v := range x[:len(dst)] {
		e := math.Exp(-float64(v))
		if math.IsInf(e, 1) { // v/(1+e) underflows to zero, also for -Inf
			dst[i] = float32(math.Copysign(0, float64(v)))
			continue
		}
		dst[i] = float32(float64(v) / (1 + e))
	}
}

// EluF32 computes the following, within 3 ULP:
//
//	for i, v := range x[:len(dst)] {
//		if v < 0 {
//			v = alpha * expm1(v)
//		}
//		dst[i] = v
//	}
//
// Celu and Selu are Elu of scaled values.
func EluF32(l cpu.Level, dst, x []float32, alpha float32) { eluF32(l, dst, x, alpha) }

func eluF32Generic(dst, x []float32, alpha float32) {
	for i, v := range x[:len(dst)] {
		if v < 0 {
			v = float32(float64(alpha) * math.Expm1(float64(v)))
		}
		dst[i] = v
	}
}

// SoftplusF32 computes the following, within 2.5 ULP:
//
//	for i, v := range x[:len(dst)] {
//		dst[i] = log(1 + exp(v))
//	}
//
// If exp(v) is below 2^-125, the result may be 0.
func SoftplusF32(l cpu.Level, dst, x []float32) { softplusF32(l, dst, x) }

func softplusF32Generic(dst, x []float32) {
	for i, v := range x[:len(dst)] {
		w := float64(v)
		dst[i] = float32(max(w, 0) + math.Log1p(math.Exp(-math.Abs(w))))
	}
}

// MishF32 computes the following, within 4 ULP:
//
//	for i, v := range x[:len(dst)] {
//		dst[i] = v * tanh(log(1+exp(v)))
//	}
//
// If exp(v) is below 2^-125, the result may be -0. -Inf gives -0.
func MishF32(l cpu.Level, dst, x []float32) { mishF32(l, dst, x) }

func mishF32Generic(dst, x []float32) {
	for i, v := range x[:len(dst)] {
		dst[i] = mish(v)
	}
}

// mish uses tanh(log(1+e)) = (e²+2e)/(e²+2e+2) with e = exp(v), and the corresponding formula with
// e = exp(-v) for positive v, so that nothing overflows or cancels.
func mish(v float32) float32 {
	w := float64(v)
	e := math.Exp(-math.Abs(w))
	switch {
	case w > 0:
		return float32(w * (1 + 2*e) / (1 + 2*e + 2*e*e))
	case e == 0:
		return float32(math.Copysign(0, w)) // the limit at -Inf
	}
	n := e * (e + 2)
	return float32(w * n / (n + 2))
}
