package layers

import (
	"math"
	"slices"

	"github.com/onward-ml/onward/cmd/onward/internal/text"
	"github.com/onward-ml/onward/tensor"
)

// Tolerance says which differences agree: |a−b| ≤ Atol + Rtol·|b|, and of integers of 8 and fewer
// bits at most Steps.
type Tolerance struct {
	Rtol, Atol, Steps float64
	// Scaled multiplies Atol by the root mean square of a tensor b if that is above 1. Sums of
	// large terms that cancel are near 0, but have the rounding errors of the terms.
	Scaled bool
}

// Difference compares two values. Differences are relative to the second.
type Difference struct {
	Type  string `json:"type"`
	Agree bool   `json:"agree"`
	Error string `json:"error,omitempty"`
	// MaxAbs and MaxRel are the largest differences; null if one is not finite.
	MaxAbs *float64 `json:"max_abs"`
	MaxRel *float64 `json:"max_rel"`
	// NeedRtol is the smallest relative tolerance that passes with Atol, NeedAtol the
	// smallest absolute tolerance that passes with Rtol; null if no tolerance passes.
	NeedRtol *float64 `json:"need_rtol"`
	NeedAtol *float64 `json:"need_atol"`
	// SNR is the signal-to-noise ratio in decibels; null if the values are equal or not numbers.
	SNR *float64 `json:"snr_db"`
}

// Compare measures the differences of two values.
func Compare(a, b tensor.Value, o Tolerance) Difference {
	var v Difference
	if a == nil || b == nil {
		v.Error = "only one side has this value"
		return v
	}
	a, b = sameType(a, b)
	v.Type = b.Type().String()
	if t, ok := b.(*tensor.Tensor); ok {
		v.Type = t.String()
	}
	err := tensor.AllClose(a, b, o.Rtol, o.Atol)
	if t, ok := b.(*tensor.Tensor); ok && o.Scaled && err != nil && t.DType().IsFloat() {
		o.Atol *= max(1, rms(t))
		err = tensor.AllClose(a, b, o.Rtol, o.Atol)
	}
	if v.Agree = err == nil; err != nil {
		v.Error = err.Error()
	}
	d := distance{rtol: o.Rtol, atol: o.Atol}
	if !d.add(a, b) {
		return v
	}
	if t, ok := b.(*tensor.Tensor); ok && d.abs <= o.Steps && slices.Equal(a.(*tensor.Tensor).Shape(), t.Shape()) &&
		t.DType().Bits() <= 8 && !t.DType().IsFloat() && t.DType() != tensor.TypeBool {
		v.Agree, v.Error = true, ""
	}
	if d.noise > 0 {
		v.SNR = text.Finite(10 * math.Log10(d.signal/d.noise))
	}
	v.MaxAbs, v.MaxRel, v.NeedRtol, v.NeedAtol = text.Finite(d.abs), text.Finite(d.rel), text.Finite(d.needR),
		text.Finite(d.needA)
	return v
}

// rms returns the root mean square of the finite elements.
func rms(t *tensor.Tensor) float64 {
	x, err := tensor.Convert(t, tensor.TypeFloat64, nil)
	if err != nil {
		return 0
	}
	sum, n := 0.0, 0
	for _, v := range tensor.MustData[float64](x) {
		if s := v * v; !math.IsNaN(s) && !math.IsInf(s, 0) {
			sum += s
			n++
		}
	}
	return math.Sqrt(sum / float64(max(n, 1)))
}

// sameType converts a tensor of floats to the type of the other if that is wider, so that models of
// different precision can be compared.
func sameType(a, b tensor.Value) (tensor.Value, tensor.Value) {
	x, ok := a.(*tensor.Tensor)
	y, ok2 := b.(*tensor.Tensor)
	if !ok || !ok2 || x.DType() == y.DType() || !x.DType().IsFloat() || !y.DType().IsFloat() {
		return a, b
	}
	if x.DType().Bits() > y.DType().Bits() {
		if c, err := tensor.Convert(y, x.DType(), nil); err == nil {
			return a, c
		}
		return a, b
	}
	if c, err := tensor.Convert(x, y.DType(), nil); err == nil {
		return c, b
	}
	return a, b
}

// distance collects the largest differences between numbers.
type distance struct {
	rtol, atol             float64
	abs, rel, needR, needA float64
	signal, noise          float64 // sums of squares
}

// add includes two values. It returns false if they do not hold numbers in the same structure.
func (d *distance) add(a, b tensor.Value) bool {
	switch a := a.(type) {
	case *tensor.Tensor:
		b, ok := b.(*tensor.Tensor)
		return ok && d.tensors(a, b)
	case *tensor.Sequence:
		b, ok := b.(*tensor.Sequence)
		if !ok || len(a.Items) != len(b.Items) {
			return false
		}
		for i := range a.Items {
			if !d.add(a.Items[i], b.Items[i]) {
				return false
			}
		}
		return true
	case *tensor.Map:
		b, ok := b.(*tensor.Map)
		return ok && d.add(a.Values, b.Values)
	case *tensor.Optional:
		b, ok := b.(*tensor.Optional)
		return ok && a.Value != nil && b.Value != nil && d.add(a.Value, b.Value)
	}
	return false
}

func (d *distance) tensors(a, b *tensor.Tensor) bool {
	if a.DType() != b.DType() || a.Len() != b.Len() || a.DType() == tensor.TypeString ||
		a.DType() == tensor.TypeComplex64 || a.DType() == tensor.TypeComplex128 {
		return false
	}
	x, err := tensor.Convert(a, tensor.TypeFloat64, nil)
	if err != nil {
		return false
	}
	y, err := tensor.Convert(b, tensor.TypeFloat64, nil)
	if err != nil {
		return false
	}
	for i, q := range tensor.MustData[float64](y) {
		p := tensor.MustData[float64](x)[i]
		diff := math.Abs(p - q)
		d.signal += q * q
		d.noise += diff * diff
		switch {
		case p == q || math.IsNaN(p) && math.IsNaN(q):
			continue
		case math.IsNaN(diff):
			diff = math.Inf(1)
		}
		q = math.Abs(q)
		d.abs = max(d.abs, diff)
		d.rel = max(d.rel, diff/q)
		d.needA = max(d.needA, diff-d.rtol*q)
		if over := diff - d.atol; over > 0 {
			d.needR = max(d.needR, over/q)
		}
	}
	return true
}
