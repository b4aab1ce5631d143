package ops

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/onward-ml/onward/tensor"
)

// The expected numbers are those of NumPy's RandomState with the same seed.
func TestSeededRandomNumbers(t *testing.T) {
	shape := []int{3}
	wantOp(t, "RandomUniform", 22, map[string]any{"shape": shape, "seed": 0.0}, tt([]float32{0.5488135, 0.71518937, 0.60276338}))
	wantOp(t, "RandomUniform", 1, map[string]any{"shape": shape, "seed": 0.0, "low": 1.0, "high": 3.0, "dtype": tensor.TypeFloat64},
		tt([]float64{2.0976270, 2.4303787, 2.2055268}))
	wantOp(t, "RandomNormal", 22, map[string]any{"shape": shape, "seed": 0.0}, tt([]float32{1.76405235, 0.40015721, 0.97873798}))
	wantOp(t, "RandomNormal", 22, map[string]any{"shape": shape, "seed": 0.0, "mean": 1.0, "scale": 2.0}, tt([]float32{4.5281047, 1.80031442, 2.95747597}))
	wantOp(t, "RandomNormalLike", 22, map[string]any{"seed": 0.0, "dtype": tensor.TypeFloat32}, tt([]float32{1.76405235, 0.40015721}), tt([]int8{1, 2}))
	wantOp(t, "RandomUniformLike", 22, map[string]any{"seed": 0.0}, tt([]float64{0.5488135, 0.71518937}), tt([]float64{1, 2}))
	wantOp(t, "Bernoulli", 22, map[string]any{"seed": 0.0, "dtype": tensor.TypeBool}, tt([]bool{false, true, true, false}), tt([]float32{0, 1, 0.9, 0.1}))
	failOp(t, "RandomUniformLike", 22, nil, "set the attribute dtype", tt([]int32{1}))
	failOp(t, "RandomUniform", 22, nil, "shape is missing")
	failOp(t, "RandomUniform", 22, map[string]any{"shape": []int{-1}}, "negative")
	failOp(t, "RandomUniform", 22, map[string]any{"shape": []int{1 << 40}}, "memory limit")
	failOp(t, "Bernoulli", 22, nil, "want a probability", tt([]float32{1.5}))
	if _, err := runOp(t, "RandomNormal", 22, map[string]any{"shape": shape}); err != nil {
		t.Error(err)
	}
	if _, err := runOp(t, "RandomNormal", 22, map[string]any{"shape": shape, "seed": float32(math.NaN())}); err != nil {
		t.Error(err)
	}
}

func TestMultinomial(t *testing.T) {
	inf := float32(math.Inf(-1))
	wantOp(t, "Multinomial", 22, map[string]any{"sample_size": 2, "dtype": tensor.TypeInt64}, tt([]int64{1, 1, 0, 0}, 2, 2),
		tt([]float32{inf, 0, inf, 50, inf, inf}, 2, 3))
	// A third of the draws each, within five standard deviations.
	const n = 30_000
	got, err := runOp(t, "Multinomial", 7, map[string]any{"sample_size": n, "seed": 1.0}, tt([]float32{3, 3, 3}, 1, 3))
	if err != nil {
		t.Fatal(err)
	}
	var count [3]int
	for _, v := range tensor.Of[int32](got[0].(*tensor.Tensor)) {
		count[v]++
	}
	for _, k := range count {
		if math.Abs(float64(k)-n/3.) > 5*math.Sqrt(n*2/9.) {
			t.Errorf("draws are %v", count)
		}
	}
	failOp(t, "Multinomial", 22, nil, "no distribution", tt([]float32{inf, inf}, 1, 2))
	failOp(t, "Multinomial", 22, nil, "no class", tt([]float32{}, 1, 0))
	failOp(t, "Multinomial", 22, nil, "rank", tt([]float32{1, 2}))
}

func TestDropoutForms(t *testing.T) {
	x := tt([]float32{1, 2, 3, 4})
	all, on := tt([]bool{true, true, true, true}), tt([]bool{true})
	wantOps(t, "Dropout", 22, nil, []tensor.Value{x, all}, x, nil, nil)
	wantOps(t, "Dropout", 10, map[string]any{"ratio": 0.9}, []tensor.Value{x, all}, x)
	wantOps(t, "Dropout", 7, nil, []tensor.Value{x, tt([]float32{1, 1, 1, 1})}, x)
	wantOps(t, "Dropout", 6, map[string]any{"is_test": 1}, []tensor.Value{x}, x)
	wantOps(t, "Dropout", 1, map[string]any{"is_test": 1, "consumed_inputs": []int{0}}, []tensor.Value{x}, x)
	// RandomState(0) draws 0.549, 0.715, 0.603, 0.545.
	kept, mask := tt([]float32{0, 2 / 0.44, 3 / 0.44, 0}), tt([]bool{false, true, true, false})
	wantOps(t, "Dropout", 12, map[string]any{"seed": 0}, []tensor.Value{kept, mask}, x, tt([]float32{.56}), on)
	wantOps(t, "Dropout", 13, map[string]any{"seed": 0}, []tensor.Value{tt([]float64{2, 4, 6, 8}), all}, tt([]float64{1, 2, 3, 4}), nil, on)
	wantOps(t, "Dropout", 22, map[string]any{"seed": 0}, []tensor.Value{tt([]tensor.Float8E5M2{0x40, 0x44}), tt([]bool{true, true})}, tt([]tensor.Float8E5M2{0x3c, 0x40}), nil, on)
	if _, err := runOp(t, "Dropout", 6, nil, x); err != nil {
		t.Error(err)
	}
	failOp(t, "Dropout", 22, nil, "ratio is 1", x, tt([]float32{1}), on)
	failOp(t, "Dropout", 22, nil, "want a scalar", x, tt([]float32{1, 2}), on)
}

func TestEyeLike(t *testing.T) {
	x := tt([]int32{1, 2, 3, 4, 5, 6}, 2, 3)
	wantOp(t, "EyeLike", 22, nil, tt([]int32{1, 0, 0, 0, 1, 0}, 2, 3), x)
	wantOp(t, "EyeLike", 9, map[string]any{"k": 2, "dtype": tensor.TypeFloat16}, halfTest(tensor.TypeFloat16, []float64{0, 0, 1, 0, 0, 0}, 2, 3), x)
	wantOp(t, "EyeLike", 9, map[string]any{"k": -1, "dtype": tensor.TypeBool}, tt([]bool{false, false, false, true, false, false}, 2, 3), x)
	wantOp(t, "EyeLike", 22, map[string]any{"k": math.MinInt64}, tt([]int32{0, 0, 0, 0, 0, 0}, 2, 3), x)
	wantOp(t, "EyeLike", 22, map[string]any{"k": math.MaxInt64}, tt([]int32{0, 0, 0, 0, 0, 0}, 2, 3), x)
	failOp(t, "EyeLike", 22, nil, "rank", tt([]int32{1, 2}))
}

// TestTopKOfLongRows compares the fast path, which passes over blocks, with the
// plain one, in which the harness runs it too.
func TestTopKOfLongRows(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		x := make([]float32, rapid.IntRange(1, 1500).Draw(rt, "n"))
		r := newRandomSource(rapid.Uint32().Draw(rt, "seed"))
		for i := range x {
			x[i] = float32(int(r.uniform() * 300))
			if r.uniform() < 0.002 {
				x[i] = float32(math.NaN())
			}
		}
		k := int64(rapid.IntRange(0, min(len(x), 40)).Draw(rt, "k"))
		if _, err := runOp(t, "TopK", 24, map[string]any{"largest": rapid.Bool().Draw(rt, "largest")}, tensor.Must(tensor.New(x, len(x))), tt([]int64{k}, 1)); err != nil {
			rt.Fatal(err)
		}
	})
}

func TestTopK(t *testing.T) {
	nan := float32(math.NaN())
	x := tt([]float32{3, nan, 3, 1, 5, 5, 0, -1}, 2, 4)
	k := func(n int64) *tensor.Tensor { return tt([]int64{n}, 1) }
	wantOps(t, "TopK", 24, nil, []tensor.Value{tt([]float32{nan, 3, 3, 5, 5, 0}, 2, 3), tt([]int64{1, 0, 2, 0, 1, 2}, 2, 3)}, x, k(3))
	wantOps(t, "TopK", 11, map[string]any{"largest": 0, "sorted": 0}, []tensor.Value{tt([]float32{1, 3, 3, nan, -1, 0, 5, 5}, 2, 4), tt([]int64{3, 0, 2, 1, 3, 2, 0, 1}, 2, 4)}, x, k(4))
	wantOps(t, "TopK", 10, map[string]any{"axis": 0}, []tensor.Value{tt([]int8{4, 3}, 1, 2), tt([]int64{1, 0}, 1, 2)}, tt([]int8{1, 3, 4, 2}, 2, 2), k(1))
	wantOps(t, "TopK", 1, map[string]any{"k": 1, "axis": 0}, []tensor.Value{tt([]float64{9}, 1), tt([]int64{1}, 1)}, tt([]float64{1, 9, 2}))
	wantOps(t, "TopK", 24, nil, []tensor.Value{halfTest(tensor.TypeFloat16, []float64{9, 2}), tt([]int64{1, 2})}, halfTest(tensor.TypeFloat16, []float64{1, 9, 2}), k(2))
	wantOps(t, "TopK", 24, nil, []tensor.Value{tt([]float32{}, 2, 0), tt([]int64{}, 2, 0)}, x, k(0))
	failOp(t, "TopK", 24, nil, "k is 5", x, k(5))
	failOp(t, "TopK", 24, nil, "k is -1", x, k(-1))
	failOp(t, "TopK", 24, map[string]any{"axis": math.MinInt64}, "out of range", x, k(1))
}
