package ml

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// linearModel computes Y = X·Wᵀ + b for LinearClassifier and LinearRegressor, with one
// row of coefficients per target.
type linearModel struct {
	coefficients []float32 // [targets, C], and ignored ones for LinearRegressor
	intercepts   []float32 // [targets], or empty
}

// targets returns the number of targets for inputs of c columns. It must equal want
// unless that is 0.
func (m *linearModel) targets(want, c int) (int, error) {
	t := want
	if t == 0 {
		if t = len(m.intercepts); t == 0 && c > 0 {
			t = len(m.coefficients) / c
		}
	}
	k := len(m.coefficients)
	if want != 0 && c > 0 && k/c >= t {
		k = t * c
	}
	if c == 0 && k != 0 || c > 0 && (k%c != 0 || k/c != t) {
		return 0, fail.Errorf("%d coefficients, want %d × %d: one per target and column of X",
			len(m.coefficients), t, c)
	}
	if k := len(m.intercepts); k != 0 && k != t {
		return 0, fail.Errorf("%d intercepts, want one per target, %d", k, t)
	}
	return t, nil
}

// scores computes n rows of targets scores and writes them to y.
func (m *linearModel) scores(c *ir.Call, x *tensor.Tensor, n, cols, targets int, y []float32) error {
	if n*targets == 0 {
		return nil
	}
	if !c.Generic && x.DType() != tensor.TypeFloat64 && cols > 0 && n*cols*targets >= 1<<12 {
		a, err := mlNumbersAs[float32](c, x)
		if err != nil {
			return err
		}
		var e gemm.Epilogue[float32]
		if len(m.intercepts) > 0 { // an empty list is no nil
			e.BiasCol = m.intercepts
		}
		gemm.Parallel(func(n int, fn func(lo, hi int)) { c.Parallel(n, 1, fn) }, cpu.Active(), &gemm.Args[float32]{
			M: n, N: targets, K: cols, A: a, LdA: cols, B: m.coefficients, LdB: cols, TransB: true, C: y, LdC: targets,
			Epilogue: e,
		})
		return nil
	}
	data, err := mlNumbersAs[float64](c, x)
	if err != nil {
		return err
	}
	c.Parallel(len(y)/targets, kit.GrainFor(cols*targets), func(lo, hi int) {
		linearScores(data[lo*cols:hi*cols], m, cols, targets, y[lo*targets:hi*targets])
	})
	return nil
}

func linearScores[T mlFloat](x []T, m *linearModel, cols, targets int, y []float32) {
	for i := range len(y) / targets {
		row := x[i*cols:][:cols]
		for t := range targets {
			w := m.coefficients[t*cols:][:len(row)]
			s := 0.0
			for k, v := range row {
				s += float64(v) * float64(w[k])
			}
			if len(m.intercepts) > 0 {
				s += float64(m.intercepts[t])
			}
			y[i*targets+t] = float32(s)
		}
	}
}
