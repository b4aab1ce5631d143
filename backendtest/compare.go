package backendtest

import (
	"errors"
	"fmt"
	"math"

	"github.com/onward-ml/onward/tensor"
)

// Compare returns an error for outputs that differ from the expected ones: in number, type, length
// or shape, in a string, or in an element by more than atol + rtol·|want|. NaN equals NaN. As in
// the runner of ONNX 1.23, rtol is at least 2⁻⁶, two steps, for bfloat16. maxAbs and maxRel are the
// largest differences over all compared elements, NaN if a NaN was compared with a number.
func Compare(got, want []tensor.Value, rtol, atol float64) (maxAbs, maxRel float64, err error) {
	if len(got) != len(want) {
		return 0, 0, fmt.Errorf("backendtest: %d outputs, want %d", len(got), len(want))
	}
	for i := range got {
		r := rtol
		if t, ok := want[i].(*tensor.Tensor); ok && t != nil && t.DType() == tensor.TypeBFloat16 {
			r = max(r, 1./64)
		}
		if d := tensor.AllClose(got[i], want[i], r, atol); d != nil {
			err = errors.Join(err, fmt.Errorf("output %d: %w", i, d))
		}
		a, r := distance(got[i], want[i])
		maxAbs, maxRel = worse(maxAbs, a), worse(maxRel, r)
	}
	return maxAbs, maxRel, err
}

// distance returns the largest differences between the elements of two values, 0 if their forms
// differ.
func distance(got, want tensor.Value) (maxAbs, maxRel float64) {
	switch w := want.(type) {
	case *tensor.Tensor:
		if g, ok := got.(*tensor.Tensor); ok && g != nil && w != nil && w.DType() != tensor.TypeString {
			a, r, err := tensor.Distance(g, w)
			if err == nil {
				return a, r
			}
		}
	case *tensor.Sequence:
		if g, ok := got.(*tensor.Sequence); ok && g != nil && w != nil && len(g.Items) == len(w.Items) {
			for i := range g.Items {
				a, r := distance(g.Items[i], w.Items[i])
				maxAbs, maxRel = worse(maxAbs, a), worse(maxRel, r)
			}
		}
	case *tensor.Optional:
		if g, ok := got.(*tensor.Optional); ok && g != nil && w != nil && g.Value != nil && w.Value != nil {
			return distance(g.Value, w.Value)
		}
	case *tensor.Map:
		if g, ok := got.(*tensor.Map); ok && g != nil && w != nil && tensor.Equal(g.Keys, w.Keys) == nil {
			return distance(g.Values, w.Values)
		}
	case *tensor.Sparse:
		if g, ok := got.(*tensor.Sparse); ok && g != nil && w != nil && tensor.Equal(g.Indices, w.Indices) == nil {
			return distance(g.Values, w.Values)
		}
	}
	return maxAbs, maxRel
}

// worse returns the larger of two differences; NaN is larger than all numbers.
func worse(a, b float64) float64 {
	if math.IsNaN(a) || a > b {
		return a
	}
	return b
}
