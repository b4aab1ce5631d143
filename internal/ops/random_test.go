package ops

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/testing/optest"
	"github.com/onward-ml/onward/tensor"
	"pgregory.net/rapid"
)

// The expected numbers are those of NumPy's RandomState with the same seed.
func TestSeededRandomNumbers(t *testing.T) {
	shape := []int{3}
	optest.Want(t, "RandomUniform", 22, map[string]any{"shape": shape, "seed": 0.0},
		optest.Tensor([]float32{0.5488135, 0.71518937, 0.60276338}))
	optest.Want(t, "RandomUniform", 1, map[string]any{"shape": shape, "seed": 0.0, "low": 1.0, "high": 3.0,
		"dtype": tensor.TypeFloat64},
		optest.Tensor([]float64{2.0976270, 2.4303787, 2.2055268}))
	optest.Want(t, "RandomNormal", 22, map[string]any{"shape": shape, "seed": 0.0},
		optest.Tensor([]float32{1.76405235, 0.40015721, 0.97873798}))
	optest.Want(t, "RandomNormal", 22, map[string]any{"shape": shape, "seed": 0.0, "mean": 1.0, "scale": 2.0},
		optest.Tensor([]float32{4.5281047, 1.80031442, 2.95747597}))
	optest.Want(t, "RandomNormalLike", 22, map[string]any{"seed": 0.0, "dtype": tensor.TypeFloat32},
		optest.Tensor([]float32{1.76405235, 0.40015721}), optest.Tensor([]int8{1, 2}))
	optest.Want(t, "RandomUniformLike", 22, map[string]any{"seed": 0.0},
		optest.Tensor([]float64{0.5488135, 0.71518937}), optest.Tensor([]float64{1, 2}))
	optest.Want(t, "Bernoulli", 22, map[string]any{"seed": 0.0, "dtype": tensor.TypeBool},
		optest.Tensor([]bool{false, true, true, false}), optest.Tensor([]float32{0, 1, 0.9, 0.1}))
	optest.Fail(t, "RandomUniformLike", 22, nil, "or the attribute dtype", optest.Tensor([]int32{1}))
	optest.Fail(t, "RandomUniform", 22, nil, "shape is missing")
	optest.Fail(t, "RandomUniform", 22, map[string]any{"shape": []int{-1}}, "negative")
	optest.Fail(t, "RandomUniform", 22, map[string]any{"shape": []int{1 << 40}}, "memory limit")
	optest.Want(t, "Bernoulli", 22, nil, optest.Tensor([]float32{1, 0}), optest.Tensor([]float32{1.5, -0.5}))
	optest.Fail(t, "Bernoulli", 22, nil, "want a probability", optest.Tensor([]float32{float32(math.NaN())}))
	if _, err := optest.Run(t, "RandomNormal", 22, map[string]any{"shape": shape}); err != nil {
		t.Error(err)
	}
	if _, err := optest.Run(t, "RandomNormal", 22, map[string]any{"shape": shape, "seed": float32(math.NaN())}); err !=
		nil {
		t.Error(err)
	}
}

// TestBernoulliNumbers compares with NumPy's binomial of one trial, which inverts the distribution
// of the less likely outcome, for blocks with and without probabilities that take no number.
func TestBernoulliNumbers(t *testing.T) {
	const n = 2000
	got, err := optest.Run(t, "RandomUniform", 22,
		map[string]any{"shape": []int{n}, "seed": 3.0, "dtype": tensor.TypeFloat64})
	if err != nil {
		t.Fatal(err)
	}
	numbers := tensor.MustData[float64](got[0].(*tensor.Tensor))
	for _, share := range []int{1 << 62, 700, 2} {
		r := rand.New(rand.NewPCG(1, 2))
		p, want, next := make([]float32, n), make([]bool, n), 0
		for i := range p {
			if r.IntN(share) == 0 {
				p[i] = []float32{0, 1, 2, -1, float32(math.Inf(1)), float32(math.Copysign(0, -1))}[r.IntN(6)]
				want[i] = p[i] > 0.5
				continue
			}
			p[i] = []float32{0.5, 1 - 1e-7, 1e-45, r.Float32() + 1e-9}[min(r.IntN(20), 3)]
			v := float64(p[i])
			rare := min(v, 1-v)
			want[i] = (numbers[next] > 1-rare) != (v > 0.5)
			next++
		}
		optest.Want(t, "Bernoulli", 22, map[string]any{"seed": 3.0, "dtype": tensor.TypeBool}, optest.Tensor(want),
			optest.Tensor(p))
	}
}

func TestMultinomial(t *testing.T) {
	inf := float32(math.Inf(-1))
	optest.Want(t, "Multinomial", 22, map[string]any{"sample_size": 2, "dtype": tensor.TypeInt64},
		optest.Tensor([]int64{1, 1, 0, 0}, 2, 2),
		optest.Tensor([]float32{inf, 0, inf, 50, inf, inf}, 2, 3))
	// A third of the draws each, within five standard deviations.
	const n = 30_000
	got, err := optest.Run(t, "Multinomial", 7, map[string]any{"sample_size": n, "seed": 1.0},
		optest.Tensor([]float32{3, 3, 3}, 1, 3))
	if err != nil {
		t.Fatal(err)
	}
	var count [3]int
	for _, v := range tensor.MustData[int32](got[0].(*tensor.Tensor)) {
		count[v]++
	}
	for _, k := range count {
		if math.Abs(float64(k)-n/3.) > 5*math.Sqrt(n*2/9.) {
			t.Errorf("draws are %v", count)
		}
	}
	optest.Fail(t, "Multinomial", 22, nil, "add up to", optest.Tensor([]float32{inf, inf}, 1, 2))
	optest.Fail(t, "Multinomial", 22, nil, "at least one class", optest.Tensor([]float32{}, 1, 0))
	optest.Fail(t, "Multinomial", 22, nil, "rank", optest.Tensor([]float32{1, 2}))
}

func TestDropoutForms(t *testing.T) {
	x := optest.Tensor([]float32{1, 2, 3, 4})
	all, on := optest.Tensor([]bool{true, true, true, true}), optest.Tensor([]bool{true})
	optest.WantAll(t, "Dropout", 22, nil, []tensor.Value{x, all}, x, nil, nil)
	optest.WantAll(t, "Dropout", 10, map[string]any{"ratio": 0.9},
		[]tensor.Value{x, optest.Tensor([]bool{false, false, false, false})}, x)
	optest.WantAll(t, "Dropout", 7, nil, []tensor.Value{x, optest.Tensor([]float32{0, 0, 0, 0})}, x)
	optest.WantAll(t, "Dropout", 6, map[string]any{"is_test": 1}, []tensor.Value{x}, x)
	optest.WantAll(t, "Dropout", 1, map[string]any{"is_test": 1, "consumed_inputs": []int{0}}, []tensor.Value{x}, x)
	// RandomState(0) draws 0.549, 0.715, 0.603, 0.545.
	kept, mask := optest.Tensor([]float32{0, 2 / 0.44, 3 / 0.44, 0}), optest.Tensor([]bool{false, true, true, false})
	optest.WantAll(t, "Dropout", 12, map[string]any{"seed": 0}, []tensor.Value{kept, mask}, x,
		optest.Tensor([]float32{.56}), on)
	optest.WantAll(t, "Dropout", 13, map[string]any{"seed": 0},
		[]tensor.Value{optest.Tensor([]float64{2, 4, 6, 8}), all}, optest.Tensor([]float64{1, 2, 3, 4}), nil, on)
	optest.WantAll(t, "Dropout", 22, map[string]any{"seed": 0},
		[]tensor.Value{optest.Tensor([]tensor.Float8E5M2{0x40, 0x44}), optest.Tensor([]bool{true, true})},
		optest.Tensor([]tensor.Float8E5M2{0x3c, 0x40}), nil, on)
	if _, err := optest.Run(t, "Dropout", 6, nil, x); err != nil {
		t.Error(err)
	}
	optest.Fail(t, "Dropout", 22, nil, "ratio is 1", x, optest.Tensor([]float32{1}), on)
	optest.Fail(t, "Dropout", 22, nil, "want a scalar", x, optest.Tensor([]float32{1, 2}), on)
}

func TestEyeLike(t *testing.T) {
	x := optest.Tensor([]int32{1, 2, 3, 4, 5, 6}, 2, 3)
	optest.Want(t, "EyeLike", 22, nil, optest.Tensor([]int32{1, 0, 0, 0, 1, 0}, 2, 3), x)
	optest.Want(t, "EyeLike", 9, map[string]any{"k": 2, "dtype": tensor.TypeFloat16},
		halfTest(tensor.TypeFloat16, []float64{0, 0, 1, 0, 0, 0}, 2, 3), x)
	optest.Want(t, "EyeLike", 9, map[string]any{"k": -1, "dtype": tensor.TypeBool},
		optest.Tensor([]bool{false, false, false, true, false, false}, 2, 3), x)
	optest.Want(t, "EyeLike", 22, map[string]any{"k": math.MinInt64}, optest.Tensor([]int32{0, 0, 0, 0, 0, 0}, 2, 3), x)
	optest.Want(t, "EyeLike", 22, map[string]any{"k": math.MaxInt64}, optest.Tensor([]int32{0, 0, 0, 0, 0, 0}, 2, 3), x)
	optest.Fail(t, "EyeLike", 22, nil, "rank", optest.Tensor([]int32{1, 2}))
}

// TestTopKOfLongRows compares the fast path, which skips blocks, with the plain path, which the
// harness runs too.
func TestTopKOfLongRows(t *testing.T) {
	t.Run("float", checkTopK[float32])
	t.Run("double", checkTopK[float64])
	t.Run("int64", checkTopK[int64])
}

func checkTopK[T kit.RealNumber](t *testing.T) {
	nan := math.NaN()
	rapid.Check(t, func(rt *rapid.T) {
		x := make([]T, rapid.IntRange(1, 1500).Draw(rt, "n"))
		r := newRandomSource(rapid.Uint32().Draw(rt, "seed"))
		values := float64(rapid.SampledFrom([]int{2, 300, 1 << 20}).Draw(rt, "values"))
		for i := range x {
			x[i] = T(int(r.Uniform() * values))
			if r.Uniform() < 0.002 {
				x[i] = T(nan)
			}
		}
		k := int64(rapid.IntRange(0, min(len(x), 40)).Draw(rt, "k"))
		if _, err := optest.Run(t, "TopK", 24, map[string]any{"largest": rapid.Bool().Draw(rt, "largest")},
			tensor.Must(tensor.New(x, len(x))), optest.Tensor([]int64{k}, 1)); err != nil {
			rt.Fatal(err)
		}
	})
}

func TestTopK(t *testing.T) {
	nan := float32(math.NaN())
	x := optest.Tensor([]float32{3, nan, 3, 1, 5, 5, 0, -1}, 2, 4)
	k := func(n int64) *tensor.Tensor { return optest.Tensor([]int64{n}, 1) }
	optest.WantAll(t, "TopK", 24, nil, []tensor.Value{optest.Tensor([]float32{nan, 3, 3, 5, 5, 0}, 2, 3),
		optest.Tensor([]int64{1, 0, 2, 0, 1, 2}, 2, 3)}, x, k(3))
	optest.WantAll(t, "TopK", 11, map[string]any{"largest": 0, "sorted": 0},
		[]tensor.Value{optest.Tensor([]float32{1, 3, 3, nan, -1, 0, 5, 5}, 2, 4),
			optest.Tensor([]int64{3, 0, 2, 1, 3, 2, 0, 1}, 2, 4)}, x, k(4))
	optest.WantAll(t, "TopK", 10, map[string]any{"axis": 0},
		[]tensor.Value{optest.Tensor([]int8{4, 3}, 1, 2), optest.Tensor([]int64{1, 0}, 1, 2)},
		optest.Tensor([]int8{1, 3, 4, 2}, 2, 2), k(1))
	optest.WantAll(t, "TopK", 11, nil, []tensor.Value{optest.Tensor([]uint32{4e9, 3e9}), optest.Tensor([]int64{1, 3})},
		optest.Tensor([]uint32{1, 4e9, 7, 3e9}), k(2))
	optest.WantAll(t, "TopK", 11, nil, []tensor.Value{optest.Tensor([]uint64{1<<63 + 1, 1 << 63}),
		optest.Tensor([]int64{0, 2})}, optest.Tensor([]uint64{1<<63 + 1, 5, 1 << 63}), k(2))
	optest.WantAll(t, "TopK", 1, map[string]any{"k": 1, "axis": 0},
		[]tensor.Value{optest.Tensor([]float64{9}, 1), optest.Tensor([]int64{1}, 1)}, optest.Tensor([]float64{1, 9, 2}))
	optest.WantAll(t, "TopK", 24, nil, []tensor.Value{halfTest(tensor.TypeFloat16, []float64{9, 2}),
		optest.Tensor([]int64{1, 2})}, halfTest(tensor.TypeFloat16, []float64{1, 9, 2}), k(2))
	optest.WantAll(t, "TopK", 24, nil, []tensor.Value{optest.Tensor([]float32{}, 2, 0), optest.Tensor([]int64{}, 2, 0)},
		x, k(0))
	optest.Fail(t, "TopK", 24, nil, "k is 5", x, k(5))
	optest.Fail(t, "TopK", 24, nil, "k is -1", x, k(-1))
	optest.Fail(t, "TopK", 24, map[string]any{"axis": math.MinInt64}, "out of range", x, k(1))
}
