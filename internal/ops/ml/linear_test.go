package ml

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/testing/optest"
	"github.com/onward-ml/onward/tensor"
)

func TestLinearClassifierEdges(t *testing.T) {
	x := optest.Tensor([]float32{1, 2, -3, 1}, 2, 2)
	one := map[string]any{"coefficients": []float64{1, 2}, "intercepts": []float64{0.25},
		"classlabels_strings": []string{"yes"}}
	optest.WantAll(t, "ai.onnx.ml.LinearClassifier", 1, one,
		[]tensor.Value{optest.Tensor([]string{"yes", ""}), optest.Tensor([]float32{5.25, -0.75}, 2, 1)}, x)
	probit := map[string]any{"coefficients": []float64{0.1, 0}, "intercepts": []float64{0.25},
		"classlabels_ints": []int{3, 4}, "post_transform": "PROBIT"}
	optest.WantAll(t, "ai.onnx.ml.LinearClassifier", 1, probit,
		[]tensor.Value{optest.Tensor([]int64{4, 4}), optest.Tensor([]float32{1.0364, -1.0364, 1.0364, -1.0364}, 2, 2)},
		optest.Tensor([]float32{-1, 2, -1, 1}, 2, 2))
	two := map[string]any{"coefficients": []float64{1, 2, 3, 4}, "classlabels_ints": []int{3, 4}}
	optest.WantAll(t, "ai.onnx.ml.LinearClassifier", 1, two,
		[]tensor.Value{optest.Tensor([]int64{}), optest.Tensor([]float32{}, 0, 2)}, optest.Tensor([]float32{}, 0, 2))
	// The scores of one class with one label are transformed, those without a label are not.
	for name, want := range map[string][]float32{"NONE": {0, 2}, "LOGISTIC": {0.5, 1 / (1 + float32(math.Exp(-2)))},
		"SOFTMAX": {1, 1}, "SOFTMAX_ZERO": {0.5, 1}} {
		attrs := map[string]any{"coefficients": []float64{1}, "intercepts": []float64{-1}, "post_transform": name}
		in := optest.Tensor([]float32{1, 3}, 2, 1)
		optest.WantAll(t, "ai.onnx.ml.LinearClassifier", 1, attrs,
			[]tensor.Value{optest.Tensor([]int64{0, 1}), optest.Tensor([]float32{0, 2}, 2, 1)}, in)
		attrs["classlabels_ints"] = []int{7}
		optest.WantAll(t, "ai.onnx.ml.LinearClassifier", 1, attrs,
			[]tensor.Value{optest.Tensor([]int64{7, 7}), optest.Tensor(want, 2, 1)}, in)
	}
	optest.Fail(t, "ai.onnx.ml.LinearClassifier", 1, two, "4 coefficients, want 1 × 3",
		optest.Tensor([]float32{1, 2, 3}, 1, 3))
	optest.Fail(t, "ai.onnx.ml.LinearClassifier", 1, two, "rank 3", optest.Tensor([]float32{1, 2}, 1, 1, 2))
	optest.Fail(t, "ai.onnx.ml.LinearClassifier", 1,
		map[string]any{"coefficients": []float64{1, 2, 3, 4}, "intercepts": []float64{1, 2}}, "0 labels for 2", x)
	optest.Fail(t, "ai.onnx.ml.LinearRegressor", 1,
		map[string]any{"coefficients": []float64{1}, "targets": math.MaxInt}, "targets is", x)
	optest.Fail(t, "ai.onnx.ml.LinearRegressor", 1,
		map[string]any{"coefficients": []float64{1}, "post_transform": "CUBE"}, "CUBE", x)
	optest.Want(t, "ai.onnx.ml.LinearRegressor", 1,
		map[string]any{"coefficients": []float64{1, 2}, "post_transform": "LOGISTIC"},
		optest.Tensor([]float32{5, -1}, 2, 1), x)
}

func TestMLScaleEdges(t *testing.T) {
	optest.Want(t, "ai.onnx.ml.Scaler", 1, nil, optest.Tensor([]float32{1, 2}), optest.Tensor([]float32{1, 2}))
	optest.Want(t, "ai.onnx.ml.Scaler", 1, map[string]any{"scale": []float64{2, 3}},
		optest.Tensor([]float32{2, 6, 6, 12}, 2, 1, 2), optest.Tensor([]int64{1, 2, 3, 4}, 2, 1, 2))
	// Every operation rounds to float32, as in ONNX Runtime: float64 would give (2/7 − 0.1)·7
	// another last bit.
	x, offset, scale := float32(2)/7, float32(0.1), float32(7)
	d := x - offset
	optest.Want(t, "ai.onnx.ml.Scaler", 1, map[string]any{"offset": []float64{0.1}, "scale": []float64{7}},
		optest.Tensor([]float32{d * scale}), optest.Tensor([]float32{x}))
	optest.Want(t, "ai.onnx.ml.Scaler", 1, map[string]any{"offset": []float64{1 << 24}}, optest.Tensor([]float32{0}),
		optest.Tensor([]int64{1<<24 + 1}))
	optest.Want(t, "ai.onnx.ml.Scaler", 1, map[string]any{"offset": []float64{1 << 24}}, optest.Tensor([]float32{1}),
		optest.Tensor([]float64{1<<24 + 1}))
	optest.Fail(t, "ai.onnx.ml.Scaler", 1, map[string]any{"scale": []float64{2, 3}}, "want 1 or 3",
		optest.Tensor([]float32{1, 2, 3}))
	optest.Fail(t, "ai.onnx.ml.Scaler", 1, map[string]any{"scale": []float64{2, 3}, "offset": []float64{1, 2, 3}},
		"3 offsets and 2 scales", optest.Tensor([]float32{1, 2, 3}))
	optest.Want(t, "ai.onnx.ml.Normalizer", 1, nil, optest.Tensor([]float32{}, 2, 0), optest.Tensor([]float32{}, 2, 0))
	optest.Fail(t, "ai.onnx.ml.Normalizer", 1, nil, "rank 3", optest.Tensor([]float32{}, 2, 0, 1))
	optest.Fail(t, "ai.onnx.ml.ZipMap", 1, map[string]any{"classlabels_int64s": []int{1, 1}}, "key 1 appears twice",
		optest.Tensor([]float32{1, 2}))
	optest.Fail(t, "ai.onnx.ml.ZipMap", 1, map[string]any{"classlabels_int64s": []int{1, 2}}, "3 columns",
		optest.Tensor([]float32{1, 2, 3}))
}

// TestNormalizerRows compares float32 rows, which vector kernels normalize, with the same ones in
// float64.
func TestNormalizerRows(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	special := []float32{0, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), 1e-30,
		1e30, math.MaxFloat32, -1}
	for _, rows := range []int{3, 16, 137} {
		for _, cols := range []int{1, 2, 7, 10, 33, 64, 65, 300} {
			x, wide := make([]float32, rows*cols), make([]float64, rows*cols)
			for i := range x {
				v := float32(r.NormFloat64())
				if row := i / cols; row%5 == 2 {
					v = special[row/5%len(special)]
				} else if row%5 == 4 && i%cols == cols/2 {
					v = special[row/5%len(special)]
				}
				x[i], wide[i] = v, float64(v)
			}
			for _, norm := range []string{"MAX", "L1", "L2"} {
				want, err := optest.Run(t, "ai.onnx.ml.Normalizer", 1, map[string]any{"norm": norm},
					optest.Tensor(wide, rows, cols))
				if err != nil {
					t.Fatal(err)
				}
				optest.Want(t, "ai.onnx.ml.Normalizer", 1, map[string]any{"norm": norm}, want[0],
					optest.Tensor(x, rows, cols))
			}
		}
	}
}

// TestLinearWithoutIntercepts: an empty list of intercepts, as models in memory can have, counts as
// absent. The kernel would read the memory behind it.
func TestLinearWithoutIntercepts(t *testing.T) {
	const rows = 1 << 10
	x := optest.Tensor(make([]float32, 2*rows), rows, 2)
	for _, list := range [][]float32{nil, {}, []float32{7, 9}[:0]} {
		op := &LinearRegressor{model: linearModel{[]float32{1, 2, 3, 4}, list}, targets: 2}
		c := &ir.Call{Node: &ir.Node{Op: op}, In: []tensor.Value{x}, Out: make([]tensor.Value, 1),
			Env: &optest.Env{Ctx: t.Context(), Limit: optest.MemoryLimit}}
		if err := optest.RunCaught(op, c); err != nil {
			t.Fatal(err)
		}
		want := optest.Tensor(make([]float32, 2*rows), rows, 2)
		if err := tensor.AllClose(c.Out[0], want, 0, 0); err != nil {
			t.Errorf("intercepts with room for %d: %v", cap(list), err)
		}
	}
}
