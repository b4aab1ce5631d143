package ops

import (
	"math"
	"slices"
	"testing"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
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
		got, err := optest.Run(t, name, 18, map[string]any{"keepdims": 0}, optest.Tensor(x, 2, rows, cols),
			optest.Tensor([]int64{1}, 1))
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range tensor.MustData[float32](got[0].(*tensor.Tensor)) {
			if math.IsInf(float64(w[i]), 0) && v != w[i] || (v != v) != (w[i] != w[i]) ||
				math.Abs(float64(v-w[i])) > 1e-5*math.Abs(float64(w[i]))+1e-37 {
				t.Fatalf("%s: column %d is %g, want %g", name, i, v, w[i])
			}
		}
	}
}

// TestReduceApart reduces dimensions that are not adjacent, in blocks of several results and pieces
// of few elements.
func TestReduceApart(t *testing.T) {
	for _, c := range []struct{ shape, axes []int }{
		{[]int{9, 3, 70, 20}, []int{0, 3}}, {[]int{5, 40, 3, 7, 3}, []int{0, 2, 4}}, {[]int{6, 49, 20, 8}, []int{0, 1, 3}}, {[]int{33, 600, 2}, []int{0, 2}},
		{[]int{6, 70, 3, 10}, []int{0, 2}}, {[]int{4, 3, 5, 200}, []int{1, 3}}, {[]int{3, 90, 5}, []int{0, 2}}, {[]int{300, 2, 4}, []int{0, 2}}, {[]int{7, 8, 260}, []int{0, 2}},
	} {
		kept := slices.Clone(c.shape)
		var axes []int64
		for _, a := range c.axes {
			kept[a], axes = 1, append(axes, int64(a))
		}
		groups := make([][]float64, kit.Product(kept))
		x := make([]float64, kit.Product(c.shape))
		elementwise.EachBroadcastIndex(c.shape, [][]int{kept}, func(i int, at []int) {
			x[i] = float64(i*7%31 - 11)
			groups[at[0]] = append(groups[at[0]], x[i])
		})
		for name, f := range map[string]func(x []float64) float64{
			"ReduceSum": func(x []float64) float64 { return vec.SumF64(cpu.Generic, x) },
			"ReduceMax": slices.Max[[]float64],
			"ReduceMin": slices.Min[[]float64],
			"ReduceL2":  func(x []float64) float64 { return math.Sqrt(vec.SumSquaresF64(cpu.Generic, x)) },
			"ReduceLogSumExp": func(x []float64) float64 {
				sum := 0.0
				for _, v := range x {
					sum += math.Exp(v)
				}
				return math.Log(sum)
			},
		} {
			want := make([]float64, len(groups))
			for i, g := range groups {
				want[i] = f(g)
			}
			types := []tensor.DType{tensor.TypeFloat64, tensor.TypeFloat32}
			if name != "ReduceL2" && name != "ReduceLogSumExp" {
				types = append(types, tensor.TypeInt32, tensor.TypeInt64, tensor.TypeFloat16)
			}
			for _, d := range types {
				as := func(x []float64, shape []int) *tensor.Tensor {
					return tensor.Must(tensor.Convert(tensor.Must(tensor.New(x, shape...)), d, nil))
				}
				optest.Want(t, name, 18, nil, as(want, kept), as(x, c.shape), optest.Tensor(axes, len(axes)))
			}
		}
	}
}

// TestReduceProdRows reduces rows of few elements, which are computed together.
func TestReduceProdRows(t *testing.T) {
	for n := 1; n < 10; n++ {
		const rows = 133
		x, want := make([]float32, rows*n), make([]float32, rows)
		for i := range want {
			p := 1.
			for k := range n {
				x[i*n+k] = float32((i*n+k)*7%31-11) / 8
				p *= float64(x[i*n+k])
			}
			want[i] = float32(p)
		}
		optest.Want(t, "ReduceProd", 18, nil, optest.Tensor(want, rows, 1), optest.Tensor(x, rows, n),
			optest.Tensor([]int64{1}, 1))
	}
}
