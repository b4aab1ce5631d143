package vec

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
)

// ExpSubSumF32 is the inner loop of Softmax and LogSumExp. No x may exceed shift by more than 87.
// Elements are within 2 ULP of the exponential of the rounded difference, or 0 if that is less than
// 1.2e-38, and the sum is within 2⁻²⁰ of the sum of the stored elements. It returns sum and
// computes
//
//	for i, v := range x[:len(dst)] {
//		dst[i] = exp(v - shift)
//		sum += dst[i]
//	}
func ExpSubSumF32(l cpu.Level, dst, x []float32, shift float32) (sum float32) {
	return float32(expSubSum64F32(l, dst, x, shift))
}

func expSubSumF32Generic(dst, x []float32, shift float32) float64 {
	var s float64
	for i, v := range x[:len(dst)] {
		e := float32(math.Exp(float64(v - shift)))
		dst[i] = e
		s += float64(e)
	}
	return s
}

// SoftmaxF32 writes the softmax of the row x, exp(x-max(x)) / Σ exp(x-max(x)), within 6 ULP for
// rows of up to 65,536 elements. The result is NaN if all elements are -Inf, or if one is +Inf or
// NaN.
func SoftmaxF32(l cpu.Level, dst, x []float32) { SoftmaxRowsF32(l, dst, x, len(dst)) }

// SoftmaxRowsF32 applies [SoftmaxF32] to each row of n elements of x.
func SoftmaxRowsF32(l cpu.Level, dst, x []float32, n int) {
	if len(dst) == 0 {
		return
	}
	x = x[:len(dst)]
	if n <= chunk/2 {
		if done := narrowSoftmax(l, dst, x, n, false); done < len(dst) {
			softmaxRowsF32(l, dst[done:], x[done:], n)
		}
		return
	}
	for lo := 0; lo < len(dst); lo += n {
		d, x := dst[lo:lo+n], x[lo:lo+n]
		s := ExpSubSumF32(l, d, x, ReduceMaxF32(l, x))
		MulScalarF32(l, d, d, 1/s)
	}
}

// narrowSoftmax applies [SoftmaxF32] or, if log is set, [LogSoftmaxF32] to the most of many rows of
// up to eight elements: to the columns of their transpose, with the operations and the order of the
// sums of the kernels for rows. It returns the number of elements that it did.
func narrowSoftmax(l cpu.Level, dst, x []float32, n int, log bool) (done int) {
	const most, block, few = 8, 128, 16
	if l != cpu.AVX512 || n < 2 || n > most || len(dst) < few*n {
		return 0
	}
	var xs, es, sums [most * block]float32
	for len(dst)-done >= few*n {
		m := min(block, (len(dst)-done)/n)
		a, e, s := xs[:n*m], es[:n*m], sums[:n*m]
		TransposeF32(l, a, m, x[done:], n, m, n)
		top := s[:m]
		copy(top, a)
		for k := m; k < n*m; k += m {
			MaxF32(l, top, top, a[k:][:m])
		}
		for k := 0; k < n*m; k += m {
			SubF32(l, a[k:][:m], a[k:][:m], top)
		}
		ExpSubSumF32(l, e, a, 0)
		copy(s, e)
		for d := most / 2; d > 0; d /= 2 {
			for k := 0; k < d && k+d < n; k++ {
				AddF32(l, s[k*m:][:m], s[k*m:][:m], s[(k+d)*m:][:m])
			}
		}
		if log {
			LogF32(l, s[:m], s[:m])
			for k := 0; k < n*m; k += m {
				SubF32(l, a[k:][:m], a[k:][:m], s[:m])
			}
			e = a
		} else {
			ScalarDivF32(l, s[:m], s[:m], 1)
			for k := 0; k < n*m; k += m {
				MulF32(l, e[k:][:m], e[k:][:m], s[:m])
			}
		}
		TransposeF32(l, dst[done:], n, e, m, n, m)
		done += n * m
	}
	return done
}

func softmaxRowsF32Generic(dst, x []float32, n int) {
	for lo := 0; lo < len(dst); lo += n {
		d, x := dst[lo:lo+n], x[lo:lo+n]
		s := float32(expSubSumF32Generic(d, x, reduceMaxF32Generic(x)))
		mulScalarF32Generic(d, d, 1/s)
	}
}

// LogSoftmaxF32 writes x - max(x) - log(Σ exp(x-max(x))). dst must not be x, since it may hold the
// exponentials temporarily.
func LogSoftmaxF32(l cpu.Level, dst, x []float32) { LogSoftmaxRowsF32(l, dst, x, len(dst)) }

// LogSoftmaxRowsF32 applies [LogSoftmaxF32] to each row of n elements of x.
func LogSoftmaxRowsF32(l cpu.Level, dst, x []float32, n int) {
	if len(dst) == 0 {
		return
	}
	x = x[:len(dst)]
	if n <= chunk/2 {
		if done := narrowSoftmax(l, dst, x, n, true); done < len(dst) {
			logSoftmaxRowsF32(l, dst[done:], x[done:], n)
		}
		return
	}
	for lo := 0; lo < len(dst); lo += n {
		d, x := dst[lo:lo+n], x[lo:lo+n]
		m := ReduceMaxF32(l, x)
		lg := float32(math.Log(float64(ExpSubSumF32(l, d, x, m))))
		SubScalarF32(l, d, x, m)
		SubScalarF32(l, d, d, lg)
	}
}

func logSoftmaxRowsF32Generic(dst, x []float32, n int) {
	for lo := 0; lo < len(dst); lo += n {
		d, x := dst[lo:lo+n], x[lo:lo+n]
		m := reduceMaxF32Generic(x)
		lg := float32(math.Log(float64(float32(expSubSumF32Generic(d, x, m)))))
		subScalarF32Generic(d, x, m)
		subScalarF32Generic(d, d, lg)
	}
}

// LogSumExpRowsF32 writes log(Σ exp(x)) of each row of n elements of x, within 2⁻²²·(1+|max(x)|). n
// is at most [MostRowsF32]. A row with NaN or an infinite element may give NaN.
func LogSumExpRowsF32(l cpu.Level, dst, x []float32, n int) {
	_ = x[:len(dst)*n]
	logSumExpRowsF32(l, dst, x, n)
}

func logSumExpRowsF32Generic(dst, x []float32, n int) {
	for i := range dst {
		row := x[i*n : (i+1)*n]
		m := reduceMaxF32Generic(row)
		var s float64
		for _, v := range row {
			s += math.Exp(float64(v - m))
		}
		dst[i] = float32(float64(m) + math.Log(s))
	}
}

// MeanInvStdF32 returns the mean of x and 1/√(variance+eps), the statistics of layer, group and
// instance normalization. It makes two passes: the variance is that around the rounded mean.
func MeanInvStdF32(l cpu.Level, x []float32, eps float32) (mean, invStd float32) {
	n := float64(len(x))
	mean = float32(sum64F32(l, x) / n)
	v := sumSquares64F32(l, x, mean) / n
	return mean, float32(1 / math.Sqrt(v+float64(eps)))
}

// NormalizeF32 normalizes x. gain may be nil for ones and bias for zeros. The result is within 2
// float32 roundings after the subtraction. It computes
//
//	for i, v := range x[:len(dst)] {
//		dst[i] = (v-mean)*invStd*gain[i] + bias[i]
//	}
func NormalizeF32(l cpu.Level, dst, x []float32, mean, invStd float32, gain, bias []float32) {
	switch {
	case gain == nil:
		scaleSubF32(l, dst, x, mean, invStd)
		if bias != nil {
			AddF32(l, dst, dst, bias)
		}
	case bias == nil:
		scaleSubF32(l, dst, x, mean, invStd)
		MulF32(l, dst, dst, gain)
	default:
		normalizeF32(l, dst, x, gain, bias, mean, invStd)
	}
}

func scaleSubF32Generic(dst, x []float32, sub, scale float32) {
	for i, v := range x[:len(dst)] {
		dst[i] = (v - sub) * scale
	}
}

func normalizeF32Generic(dst, x, gain, bias []float32, mean, invStd float32) {
	gain, bias = gain[:len(dst)], bias[:len(dst)]
	for i, v := range x[:len(dst)] {
		dst[i] = (v-mean)*invStd*gain[i] + bias[i]
	}
}

// LayerNormF32 writes the normalized row x, (x-mean)/√(variance+eps)·gain + bias, and returns the
// statistics. gain and bias may be nil.
func LayerNormF32(l cpu.Level, dst, x, gain, bias []float32, eps float32) (mean, invStd float32) {
	x = x[:len(dst)]
	mean, invStd = MeanInvStdF32(l, x, eps)
	NormalizeF32(l, dst, x, mean, invStd, gain, bias)
	return mean, invStd
}

// RMSNormF32 writes x/√(mean(x²)+eps)·gain and returns the factor of x. gain may be nil.
func RMSNormF32(l cpu.Level, dst, x, gain []float32, eps float32) (invRMS float32) {
	x = x[:len(dst)]
	inv := float32(1 / math.Sqrt(sumSquares64F32(l, x, 0)/float64(len(x))+float64(eps)))
	NormalizeF32(l, dst, x, 0, inv, gain, nil)
	return inv
}

// MostNormRow is the maximum row length of [NormRowsF32].
const MostNormRow = 4096

var normOnes, normZeros [MostNormRow]float32

func init() {
	for i := range normOnes {
		normOnes[i] = 1
	}
}

// NormRowsF32 is [LayerNormF32], or without center [RMSNormF32] with a bias, for adjacent rows of n
// elements. It writes the mean and the factor of each row to stats, which determines the number of
// rows. It reports whether the level has a kernel.
func NormRowsF32(l cpu.Level, dst, x []float32, n int, gain, bias, stats []float32, center bool, eps float64) bool {
	if gain == nil {
		gain = normOnes[:]
	}
	if bias == nil {
		bias = normZeros[:]
	}
	rows, c := len(stats)/2, 0
	if center {
		c = 1
	}
	return rows == 0 || normRowsF32(l, dst[:rows*n], x[:rows*n], gain[:n], bias[:n], stats, c, eps)
}
