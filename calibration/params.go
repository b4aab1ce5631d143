package calibration

import (
	"fmt"
	"math"

	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// The arithmetic follows compute_scale_zp, compute_data_quant_params and
// quantize_nparray of ONNX Runtime's quant_utils.py.

// steps returns the range of the integers that values are mapped to.
func steps(dtype tensor.DType, reduce, symmetric bool) (lo, hi float64) {
	signed := dtype == tensor.TypeInt8
	switch {
	case reduce && signed:
		return -64, 64
	case reduce:
		return 0, 127
	case signed && symmetric:
		return -127, 127
	case signed:
		return -128, 127
	}
	return 0, 255
}

// scaleAndZero returns the parameters that map the range from lo to hi to integers:
// x ≈ scale · (q − zero), and 0 is exact.
func scaleAndZero(lo, hi float32, qlo, qhi float64, symmetric bool,
	minRange float32) (scale float32, zero int32, err error) {
	lo, hi = min(lo, 0), max(hi, 0)
	if minRange > 0 {
		hi = max(hi, lo+minRange)
	}
	if symmetric {
		hi = max(-lo, hi)
		lo = -hi
	}
	s := (float64(hi) - float64(lo)) / (qhi - qlo)
	if math.IsNaN(s) || math.IsInf(s, 0) {
		return 0, 0, fmt.Errorf("range from %g to %g is not finite", lo, hi)
	}
	const smallestNormal = 0x1p-126
	if s < smallestNormal {
		return 1, 0, nil
	}
	if symmetric {
		return float32(s), int32(math.RoundToEven((qlo + qhi) / 2)), nil
	}
	return float32(s), int32(math.RoundToEven(qlo - float64(lo)/s)), nil
}

// quantizeTo quantizes values to 8-bit integers of the type and appends them to dst.
func quantizeTo(dst []byte, v []float32, scale float32, zero int32, dtype tensor.DType) []byte {
	lo, hi := steps(dtype, false, false)
	z := float32(zero)
	for _, x := range v {
		q := float32(math.RoundToEven(float64(x/scale))) + z
		dst = append(dst, byte(int32(min(max(float64(q), lo), hi))))
	}
	return dst
}

// quantized holds the parameters of a tensor: one scale and zero point, or one for each
// index of an axis.
type quantized struct {
	dtype  tensor.DType
	scales []float32
	zeros  []int32
	axis   int // -1: one for the whole tensor
}

// dims returns the dims of the scales.
func (q *quantized) dims() []int64 {
	if q.axis < 0 {
		return nil
	}
	return []int64{int64(len(q.scales))}
}

// symmetricZero reports whether all zero points are 0.
func (q *quantized) symmetricZero() bool {
	for _, z := range q.zeros {
		if z != 0 {
			return false
		}
	}
	return true
}

// columns returns the axis of the columns of the second factor of a MatMul, or −1 unless it
// is a matrix: few engines support scales per column of stacked matrices.
func columns(t *onnx.Tensor) int {
	if t == nil || len(t.Dims) != 2 {
		return -1
	}
	return 1
}

// split returns the sizes of a tensor before, of and after an axis.
func split(dims []int64, axis int) (outer, n, inner int) {
	outer, n, inner = 1, 1, 1
	for i, d := range dims {
		switch {
		case i < axis:
			outer *= int(d)
		case i == axis:
			n = int(d)
		default:
			inner *= int(d)
		}
	}
	return outer, n, inner
}

// weightParams returns the parameters of an initializer, for the whole tensor or for each
// index of an axis.
func weightParams(t *onnx.Tensor, v []float32, axis int, dtype tensor.DType, symmetric, reduce bool,
	minRange float32) (*quantized, error) {
	q := &quantized{dtype: dtype, axis: axis}
	qlo, qhi := steps(dtype, reduce, symmetric)
	outer, n, inner := 1, 1, len(v)
	if axis >= 0 {
		outer, n, inner = split(t.Dims, axis)
	}
	lo, hi := make([]float32, n), make([]float32, n)
	for o := range outer {
		for c := range n {
			for _, x := range v[(o*n+c)*inner : (o*n+c+1)*inner] {
				if x != x {
					return nil, fmt.Errorf("initializer %q contains NaN", t.Name)
				}
				lo[c], hi[c] = min(lo[c], x), max(hi[c], x)
			}
		}
	}
	for c := range n {
		s, z, err := scaleAndZero(lo[c], hi[c], qlo, qhi, symmetric, minRange)
		if err != nil {
			return nil, fmt.Errorf("initializer %q: %w", t.Name, err)
		}
		q.scales, q.zeros = append(q.scales, s), append(q.zeros, z)
	}
	return q, nil
}

// quantizeWeight quantizes the values of an initializer.
func quantizeWeight(t *onnx.Tensor, v []float32, q *quantized) []byte {
	if q.axis < 0 {
		return quantizeTo(make([]byte, 0, len(v)), v, q.scales[0], q.zeros[0], q.dtype)
	}
	outer, n, inner := split(t.Dims, q.axis)
	out := make([]byte, 0, len(v))
	for o := range outer {
		for c := range n {
			out = quantizeTo(out, v[(o*n+c)*inner:(o*n+c+1)*inner], q.scales[c], q.zeros[c], q.dtype)
		}
	}
	return out
}

// widenForBias increases the scales of a weight until the bias, in units of the scale of the
// input times that of the weight, fits int32. It reports whether it changed a scale.
func widenForBias(q *quantized, inputScale float32, bias []float32) bool {
	if q.dtype != tensor.TypeInt8 || !q.symmetricZero() {
		return false
	}
	changed := false
	widen := func(i int, magnitude float64) {
		least := 1.0001 * (2 * magnitude) / (math.MaxInt32 - (math.MinInt32 + 1))
		is := float64(inputScale) * float64(q.scales[i])
		if is < least && is > 0 {
			q.scales[i] = float32(float64(q.scales[i]) * (least / is))
			changed = true
		}
	}
	if q.axis < 0 {
		most := 0.0
		for _, b := range bias {
			most = max(most, math.Abs(float64(b)))
		}
		widen(0, most)
		return changed
	}
	for i := range q.scales {
		if i < len(bias) {
			widen(i, math.Abs(float64(bias[i])))
		}
	}
	return changed
}

// quantizeBias returns a bias in units of the scale of the input times that of the weight,
// and these scales. ok is false if it does not fit int32.
func quantizeBias(bias []float32, inputScale float32, weight []float32) (q []int32, scales []float32, ok bool) {
	for _, w := range weight {
		scales = append(scales, inputScale*w)
	}
	for i, b := range bias {
		s := scales[0]
		if len(scales) > 1 {
			s = scales[i]
		}
		v := math.RoundToEven(float64(b) / float64(s))
		if !(v >= math.MinInt32 && v <= math.MaxInt32) {
			return nil, nil, false
		}
		q = append(q, int32(v))
	}
	return q, scales, true
}
