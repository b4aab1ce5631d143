package ops

import (
	"math"
	"testing"

	"github.com/onward-ml/onward/internal/testing/optest"
	"github.com/onward-ml/onward/tensor"
)

// TestReduceColumns reduces columns whose squares or exponentials leave the range of float32, next
// to ordinary ones.
func TestReduceColumns(t *testing.T) {
	const rows, cols = 70, 600
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	special := []float32{1, 0, 1e-30, 1e30, -1e25, inf, -inf, nan, 1e-45, math.MaxFloat32, 88, -120}
	x := make([]float32, 2*rows*cols)
	for i := range x {
		x[i] = float32(i%97)/16 - 3
		if c := i % cols; c%5 == 0 { // whole columns, and others with one such element
			x[i] = special[c/5%len(special)]
		} else if c%5 == 1 && i/cols%rows == c%rows {
			x[i] = special[c/5%len(special)]
		}
	}
	want := map[string][]float32{}
	for k := range 2 {
		for c := range cols {
			squares, top := 0.0, math.Inf(-1)
			for r := range rows {
				v := float64(x[(k*rows+r)*cols+c])
				squares, top = squares+v*v, max(top, v)
			}
			sum := 0.0
			for r := range rows {
				sum += math.Exp(float64(x[(k*rows+r)*cols+c]) - top)
			}
			log := top + math.Log(sum)
			if math.IsInf(top, 0) {
				log = top
			}
			want["ReduceL2"] = append(want["ReduceL2"], float32(math.Sqrt(squares)))
			want["ReduceLogSumExp"] = append(want["ReduceLogSumExp"], float32(log))
		}
	}
	for name, w := range want {
		got, err := optest.Run(t, name, 18, map[string]any{"keepdims": 0}, optest.Tensor(x, 2, rows, cols), optest.Tensor([]int64{1}, 1))
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range tensor.Of[float32](got[0].(*tensor.Tensor)) {
			if math.IsInf(float64(w[i]), 0) && v != w[i] || (v != v) != (w[i] != w[i]) || math.Abs(float64(v-w[i])) > 1e-5*math.Abs(float64(w[i]))+1e-37 {
				t.Fatalf("%s: column %d is %g, want %g", name, i, v, w[i])
			}
		}
	}
}
