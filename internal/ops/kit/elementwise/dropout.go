package elementwise

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// DropoutRatio returns the probability of a dropped element, or 0 outside of training mode. t and
// mode are the inputs ratio and training_mode.
func DropoutRatio(t, mode *tensor.Tensor) (float64, error) {
	if mode == nil {
		return 0, nil
	}
	if mode.Len() != 1 {
		return 0, fail.Errorf("training_mode has shape %v, want a scalar", mode.Shape())
	}
	if !tensor.MustData[bool](mode)[0] {
		return 0, nil
	}
	if t == nil {
		return 0.5, nil
	}
	if t.Len() != 1 {
		return 0, fail.Errorf("ratio has shape %v, want a scalar", t.Shape())
	}
	wide, err := tensor.Convert(t, tensor.TypeFloat64, nil)
	if err != nil {
		return 0, err
	}
	r := tensor.MustData[float64](wide)[0]
	if !(r >= 0 && r < 1) {
		return 0, fail.Errorf("ratio is %g, want it in [0, 1)", r)
	}
	return r, nil
}

// DropLoop stores src·scale where kept is true, and 0·src elsewhere, so that NaN propagates.
func DropLoop[T kit.FloatNumber](dst, src []T, kept []bool, scale T) {
	for i, x := range src {
		k := T(0)
		if kept[i] {
			k = 1
		}
		dst[i] = k * x * scale
	}
}
