package attention

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/kernels/vec"
)

// Masks of exported models are biases: 0 for the keys that a query attends to, and -Inf, -1e4 or
// the most negative number for the others. The probabilities of those are 0 in float32. Omitting
// them does not change the result and saves about half of the work of causal attention. That must
// be proved from the numbers, since a bias is not a mask.

const (
	// expZero is a number below which exp is 0 in float32.
	expZero = -106
	// roundings bounds the growth of scores by the rounding of operands, to bfloat16 at most, and
	// sums.
	roundings = 1.02
)

// length returns an upper bound of the Euclidean length of x: NaN or infinity if x has one or its
// squares overflow. Squares below the smallest normal number may be lost.
func length(x []float32) float64 {
	const lost = 0x1p-120
	return math.Sqrt(float64(vec.SumSquaresF32(cpu.Active(), x, 0)) + lost*float64(len(x)))
}

// longest returns the largest [length] of rows of cols elements of a head.
func (v *HeadView[T]) longest(b, h, rows, cols int) float64 {
	x := any(v.At(b, h, 0)).([]float32)
	most := 0.0
	for i := range rows {
		most = max(most, length(x[i*v.Row:][:cols]))
	}
	return most
}

// unmaskedKeys returns how many of the first keys n queries from query i0 on need: the
// probabilities of the others are 0 because of the bias. For scores s and the bias b of a query,
// the probability of key j is at most exp(s[j]+b[j]-max(s+b)). There |s| ≤ scale·|q|·max|k|, and
// max(s+b) ≥ b[i]-max|s| for any key i, such as the first one and that of the query itself. NaN and
// infinities in the keys and values leave no key out, nor do scores that may overflow.
func (a *Core[T]) unmaskedKeys(w *attentionHead[T], i0, n int) int {
	bias := w.s[len(w.s)-a.KVLen:]
	_, float := any(bias).([]float32)
	if !float || !w.packed || a.Bias == nil || a.Softcap > 0 || a.Observe >= 0 {
		return a.KVLen
	}
	level := cpu.Active()
	keys := 0
	for i := i0 + n - 1; i >= i0 && keys < a.KVLen; i-- {
		if a.Bias.Rows.Data != nil {
			bias = a.Bias.Rows.At(w.b, w.h, i)[:a.KVLen]
		} else {
			a.Bias.Fill(w.b, w.h, i, bias)
		}
		buffer := any(bias).([]float32)
		self := max(0, i+a.KVLen-a.QLen)
		top := float64(max(buffer[0], buffer[self]))
		if !(float64(buffer[a.KVLen-1]) < top+expZero) {
			return a.KVLen // the last key may count for any scores
		}
		if w.most < 0 {
			w.most = a.K.longest(w.b, w.kv, a.KVLen, a.Dim)
			if values := a.V.longest(w.b, w.kv, a.KVLen, a.VDim); !(values < math.Inf(1)) {
				w.most = math.Inf(1)
			}
		}
		q := any(a.Q.At(w.b, w.h, i)[:a.Dim]).([]float32)
		product := roundings * length(q) * w.most
		score := product * math.Abs(a.Scale)
		if !(max(product, score) < math.MaxFloat32) {
			return a.KVLen
		}
		least := top - 2*score + expZero
		least -= math.Abs(least) * 0x1p-20 // the sums of scores and bias are rounded
		if float64(vec.ReduceMaxF32(level, buffer[keys:])) < least {
			continue
		}
		last := a.KVLen
		for last > keys && float64(buffer[last-1]) < least {
			last--
		}
		keys = last
	}
	return max(keys, 1)
}
