package ml

import (
	"context"
	"maps"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/testing/optest"
	"github.com/onward-ml/onward/tensor"
)

func TestLabelEncoderForms(t *testing.T) {
	const op = "ai.onnx.ml.LabelEncoder"
	nan := float32(math.NaN())
	optest.Want(t, op, 2, map[string]any{"keys_floats": []float64{1.5, math.NaN()}, "values_int64s": []int{8, 9}},
		optest.Tensor([]int64{9, 8, -1}), optest.Tensor([]float32{nan, 1.5, 2}))
	// Of equal keys the last one counts.
	optest.Want(t, op, 4, map[string]any{"keys_int64s": []int{1, 1}, "values_strings": []string{"u", "v"}},
		optest.Tensor([]string{"v", "_Unused"}), optest.Tensor([]int64{1, 2}))
	types := []*tensor.Tensor{optest.Tensor([]string{"a", "b"}), optest.Tensor([]int64{1, 2}),
		optest.Tensor([]float32{1, 2}), optest.Tensor([]int32{1, 2}), optest.Tensor([]int16{1, 2}), optest.Tensor([]float64{1, 2})}
	defaults := []*tensor.Tensor{optest.Tensor([]string{"b"}, 1), optest.Tensor([]int64{2}, 1),
		optest.Tensor([]float32{2}, 1), optest.Tensor([]int32{2}, 1), optest.Tensor([]int16{2}, 1), optest.Tensor([]float64{2}, 1)}
	for _, k := range types {
		for j, v := range types {
			optest.Want(t, op, 4, map[string]any{"keys_tensor": k, "values_tensor": v, "default_tensor": defaults[j]},
				v, k)
		}
	}
	optest.Fail(t, op, 4, map[string]any{"keys_int64s": []int{1}, "values_int64s": []int{1, 2}}, "shapes [1] and [2]",
		optest.Tensor([]int64{1, 2}))
	optest.Fail(t, op, 4, map[string]any{"keys_int64s": []int{1}}, "0 attributes values_*",
		optest.Tensor([]int64{1, 2}))
	optest.Fail(t, op, 4, map[string]any{"keys_int64s": []int{1}, "values_int64s": []int{1}}, "X has type string",
		optest.Tensor([]string{"a", "b"}))
	optest.Fail(t, op, 4, map[string]any{"keys_tensor": optest.Tensor([]uint8{1}, 1), "values_int64s": []int{1}},
		"keys are uint8", optest.Tensor([]int64{1, 2}))
	optest.Fail(t, op, 2, map[string]any{"keys_tensor": types[0], "values_int64s": []int{1}}, "0 attributes keys_*",
		optest.Tensor([]string{"a"}, 1))
}

func TestBinarizerTypes(t *testing.T) {
	const op = "ai.onnx.ml.Binarizer"
	attrs := map[string]any{"threshold": 1.5}
	nan, inf := math.NaN(), math.Inf(1)
	optest.Want(t, op, 1, attrs, optest.Tensor([]float32{0, 1, 0, 1, 0}),
		optest.Tensor([]float32{1.5, 1.75, float32(nan), float32(inf), float32(-inf)}))
	optest.Want(t, op, 1, attrs, optest.Tensor([]float64{0, 1, 0, 1, 0}),
		optest.Tensor([]float64{1.5, 1.5000001, nan, inf, -inf}))
	optest.Want(t, op, 1, attrs, optest.Tensor([]int32{0, 0, 1, 1}), optest.Tensor([]int32{-2, 1, 2, math.MaxInt32}))
	optest.Want(t, op, 1, attrs, optest.Tensor([]int64{0, 0, 1, 1}), optest.Tensor([]int64{-2, 1, 2, math.MaxInt64}))
	optest.Want(t, op, 1, nil, optest.Tensor([]float32{0, 0, 1}),
		optest.Tensor([]float32{float32(math.Copysign(0, -1)), 0, 1e-45}))
}

func TestMLFeatureErrors(t *testing.T) {
	optest.Fail(t, "ai.onnx.ml.ArrayFeatureExtractor", 1, nil, "index 1 is 3, want 0 to 2",
		optest.Tensor([]int32{1, 2, 3}), optest.Tensor([]int64{0, 3}))
	optest.Fail(t, "ai.onnx.ml.ArrayFeatureExtractor", 1, nil, "index 0 is -1", optest.Tensor([]int32{1, 2, 3}),
		optest.Tensor([]int64{-1, 3}))
	optest.Fail(t, "ai.onnx.ml.ArrayFeatureExtractor", 1, nil, "scalar", optest.Tensor([]int32{1}),
		optest.Tensor([]int64{0, 3}))
	optest.Want(t, "ai.onnx.ml.ArrayFeatureExtractor", 1, nil, optest.Tensor([]int32{}, 1, 0),
		optest.Tensor([]int32{1, 2}), optest.Tensor([]int64{}))
	optest.Fail(t, "ai.onnx.ml.Imputer", 1, map[string]any{"imputed_value_floats": []float64{1}}, "X is int64",
		optest.Tensor([]int64{1, 2}))
	optest.Fail(t, "ai.onnx.ml.Imputer", 1, nil, "want one of the two", optest.Tensor([]int64{1, 2}))
	optest.Fail(t, "ai.onnx.ml.Imputer", 1, map[string]any{"imputed_value_int64s": []int{1, 2, 3}}, "want 1 or 2",
		optest.Tensor([]int64{1, 2}))
	optest.Fail(t, "ai.onnx.ml.OneHotEncoder", 1, map[string]any{"cats_int64s": []int{1}, "zeros": 0}, "element 1 is 2",
		optest.Tensor([]int64{1, 2}))
	optest.Want(t, "ai.onnx.ml.OneHotEncoder", 1, map[string]any{"cats_int64s": []int{math.MinInt64, math.MaxInt64}},
		optest.Tensor([]float32{1, 0, 0, 1}, 2, 2), optest.Tensor([]int64{math.MinInt64, math.MaxInt64}))
	optest.Want(t, "ai.onnx.ml.OneHotEncoder", 1, map[string]any{"cats_int64s": []int{0}},
		optest.Tensor([]float32{0, 0}, 2, 1), optest.Tensor([]float64{math.NaN(), math.Inf(1)}))
	optest.Fail(t, "ai.onnx.ml.OneHotEncoder", 1, map[string]any{"cats_strings": []string{"a"}},
		"want the type of the categories", optest.Tensor([]int64{1, 2}))
	// no rows
	optest.Want(t, "ai.onnx.ml.FeatureVectorizer", 1, map[string]any{"inputdimensions": []int{2, 4}},
		optest.Tensor([]float32{}, 0, 6), optest.Tensor([]float32{}, 0, 0), optest.Tensor([]float32{}, 0, 0, 0))
	optest.Fail(t, "ai.onnx.ml.FeatureVectorizer", 1, map[string]any{"inputdimensions": []int{1}}, "1 elements, want 2",
		optest.Tensor([]int64{1, 2}), optest.Tensor([]int64{1, 2}))
	optest.Fail(t, "ai.onnx.ml.FeatureVectorizer", 1, map[string]any{"inputdimensions": []int{-1}},
		"inputdimensions holds -1", optest.Tensor([]int64{1, 2}))
	optest.Fail(t, "ai.onnx.ml.FeatureVectorizer", 1, nil, "a scalar", optest.Tensor([]int64{1}, []int{}...))
	optest.Fail(t, "ai.onnx.ml.FeatureVectorizer", 1, nil, "numbers of rows", optest.Tensor([]int64{1, 2}, 2, 1),
		optest.Tensor([]int64{1, 2}, 1, 2))
	optest.Fail(t, "ai.onnx.ml.CategoryMapper", 1, map[string]any{"cats_strings": []string{"a"}}, "shapes [1] and [0]",
		optest.Tensor([]int64{1, 2}))
}

// ending is a context that ends at a given call of Err.
type ending struct {
	context.Context
	left int
}

func (c *ending) Err() error {
	if c.left--; c.left <= 0 {
		return context.Canceled
	}
	return nil
}

// runWith runs an operator on a map with n keys, 1e38 as value of each, that a caller may send.
func runWith(t *testing.T, op string, a optest.Attrs, n int, env *optest.Env) error {
	keys, values := make([]int64, n), make([]float32, n)
	for i := range keys {
		keys[i], values[i] = int64(i*7919%n), 1e38
	}
	b, err := optest.Build(op, 1, a, 1, -1)
	if err != nil {
		t.Fatal(op, err)
	}
	call := &ir.Call{Node: b.Node, Env: env, Out: make([]tensor.Value, b.NumOut),
		In: []tensor.Value{&tensor.Map{Keys: optest.Tensor(keys, n), Values: optest.Tensor(values, n)}}}
	return optest.RunCaught(b.Node.Op, call)
}

// TestLargeMapsStop: operators check the context while they sort, convert or look up a million
// keys, not only while they clear and allocate their results.
func TestLargeMapsStop(t *testing.T) {
	const n = 1 << 20
	for _, c := range []struct {
		op     string
		attrs  optest.Attrs
		checks int // at least
	}{
		{"ai.onnx.ml.CastMap", nil, 50},
		{"ai.onnx.ml.CastMap", optest.Attrs{"cast_to": "TO_STRING"}, 50},
		{"ai.onnx.ml.CastMap", optest.Attrs{"map_form": "SPARSE", "max_map": n}, 50},
		{"ai.onnx.ml.DictVectorizer", optest.Attrs{"int64_vocabulary": []int{1}}, 10},
	} {
		env := &optest.Env{Ctx: &ending{t.Context(), c.checks}, Limit: optest.MemoryLimit}
		if err := runWith(t, c.op, c.attrs, n, env); err == nil {
			t.Errorf("%s%v checks the context less than %d times", c.op, c.attrs, c.checks)
		}
	}
}

// TestTextOfMapsKeepsTheLimit writes 16,384 numbers of 46 characters.
func TestTextOfMapsKeepsTheLimit(t *testing.T) {
	err := runWith(t, "ai.onnx.ml.CastMap", optest.Attrs{"cast_to": "TO_STRING"}, 1<<14,
		&optest.Env{Ctx: t.Context(), Limit: 1 << 20})
	if err == nil || !strings.Contains(err.Error(), "memory limit") {
		t.Errorf("got %v, want an error for the memory limit", err)
	}
}

func TestMaps(t *testing.T) {
	m := func(keys, values *tensor.Tensor) tensor.Value { return &tensor.Map{Keys: keys, Values: values} }
	words := m(optest.Tensor([]int64{3, 1}), optest.Tensor([]string{"7", "9"}))
	optest.Want(t, "ai.onnx.ml.CastMap", 1, nil, optest.Tensor([]float32{9, 7}, 1, 2), words)
	optest.Want(t, "ai.onnx.ml.CastMap", 1, map[string]any{"cast_to": "TO_INT64", "map_form": "SPARSE", "max_map": 4},
		optest.Tensor([]int64{0, 9, 0, 7}, 1, 4), words)
	optest.Want(t, "ai.onnx.ml.CastMap", 1, map[string]any{"cast_to": "TO_STRING"},
		optest.Tensor([]string{"9", "7"}, 1, 2), words)
	optest.Fail(t, "ai.onnx.ml.CastMap", 1, map[string]any{"map_form": "SPARSE", "max_map": 3},
		"key 3 is out of range", words)
	optest.Fail(t, "ai.onnx.ml.CastMap", 1, map[string]any{"cast_to": "TO_INT64"}, `value "x" is not an integer`,
		m(optest.Tensor([]int64{1}, 1), optest.Tensor([]string{"x"}, 1)))
	optest.Fail(t, "ai.onnx.ml.CastMap", 1, map[string]any{"cast_to": "TO_INT64"}, "out of the range",
		m(optest.Tensor([]int64{1}, 1), optest.Tensor([]float32{float32(math.Inf(1))}, 1)))
	optest.Want(t, "ai.onnx.ml.DictVectorizer", 1, map[string]any{"int64_vocabulary": []int{1, 2, 3}},
		optest.Tensor([]string{"9", "", "7"}, 1, 3), words)
	optest.Want(t, "ai.onnx.ml.DictVectorizer", 1, map[string]any{"string_vocabulary": []string{"a", "b"}},
		optest.Tensor([]int64{5, 0}, 1, 2), m(optest.Tensor([]string{"a", "q"}), optest.Tensor([]int64{5, 6})))
	optest.Want(t, "ai.onnx.ml.DictVectorizer", 1, map[string]any{"string_vocabulary": []string{"a", "b"}},
		optest.Tensor([]float64{0, 6}, 1, 2), m(optest.Tensor([]string{"b"}, 1), optest.Tensor([]float64{6}, 1)))
	optest.Fail(t, "ai.onnx.ml.DictVectorizer", 1, map[string]any{"string_vocabulary": []string{"a"}},
		"vocabulary has type string", words)
}

func TestBrokenSVMs(t *testing.T) {
	x := optest.Tensor([]float32{1, 2}, 1, 2)
	base := func(change string, v any) map[string]any {
		a := map[string]any{"vectors_per_class": []int{1, 1}, "support_vectors": []float64{1, 2, 3, 4},
			"coefficients": []float64{1, 2},
			"rho":          []float64{0}, "classlabels_ints": []int{1, 2}}
		a[change] = v
		return a
	}
	const op = "ai.onnx.ml.SVMClassifier"
	optest.Fail(t, op, 1, base("vectors_per_class", []int{-1, 3}), "vectors_per_class holds -1", x)
	optest.Fail(t, op, 1, base("vectors_per_class", []int{math.MaxInt64, 1}), "vectors_per_class holds", x)
	optest.Fail(t, op, 1, base("coefficients", []float64{1}), "1 coefficients, want at least 1 × 2", x)
	optest.Fail(t, op, 1, base("rho", []float64{1, 2}), "rho has 2", x)
	optest.Fail(t, op, 1, base("prob_a", []float64{1}), "prob_a and prob_b have 1 and 0", x)
	optest.Fail(t, op, 1, base("kernel_params", []float64{1}), "kernel_params has 1", x)
	optest.Fail(t, op, 1, base("support_vectors", []float64{1, 2, 3}), "support_vectors has 3 elements, want 2 × 2", x)
	optest.Fail(t, "ai.onnx.ml.SVMRegressor", 1, map[string]any{"n_supports": 3, "coefficients": []float64{1}},
		"n_supports is 3, but there are 1", x)
	optest.Fail(t, "ai.onnx.ml.SVMRegressor", 1, map[string]any{"coefficients": []float64{1}},
		"coefficients has 1 elements, want 1 × 2", x)
}

// TestSVMBlocks runs SVM operators on numbers of rows around the size of a block, and each row
// alone.
func TestSVMBlocks(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 3))
	draw := func(n int) []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = float64(float32(r.NormFloat64()))
		}
		return x
	}
	const cols, count = 5, 7
	for _, kind := range []string{"LINEAR", "POLY", "RBF", "SIGMOID"} {
		kernel := map[string]any{"kernel_type": kind, "kernel_params": []float64{.25, .125, 2},
			"support_vectors": draw(count * cols)}
		two, three, likely, sums := maps.Clone(kernel), maps.Clone(kernel), maps.Clone(kernel), maps.Clone(kernel)
		maps.Copy(two, map[string]any{"coefficients": draw(count), "vectors_per_class": []int{3, 4}, "rho": draw(1),
			"classlabels_ints": []int{5, 6}, "post_transform": "LOGISTIC"})
		maps.Copy(three, map[string]any{"coefficients": draw(2 * count), "vectors_per_class": []int{2, 4, 1},
			"rho": draw(3), "classlabels_strings": []string{"a", "b", "c"}})
		maps.Copy(likely, three)
		maps.Copy(likely, map[string]any{"prob_a": draw(3), "prob_b": draw(3)})
		maps.Copy(sums, map[string]any{"coefficients": draw(count), "n_supports": count, "rho": draw(1)})
		for _, c := range []struct {
			op    string
			attrs map[string]any
		}{{"SVMClassifier", two}, {"SVMClassifier", three}, {"SVMClassifier", likely}, {"SVMRegressor", sums}} {
			for _, n := range []int{1, svmBlock - 1, svmBlock, 2*svmBlock + 1} {
				x := make([]float32, n*cols)
				for i, v := range draw(len(x)) {
					x[i] = float32(v)
				}
				all, err := optest.Run(t, "ai.onnx.ml."+c.op, 1, c.attrs, optest.Tensor(x, n, cols))
				if err != nil {
					t.Fatal(err)
				}
				for i := 0; i < n; i += 1 + n/9 {
					one, err := optest.Run(t, "ai.onnx.ml."+c.op, 1, c.attrs, optest.Tensor(x[i*cols:][:cols], 1, cols))
					if err != nil {
						t.Fatal(err)
					}
					for k := range all {
						whole, row := all[k].(*tensor.Tensor), one[k].(*tensor.Tensor)
						size := row.Len()
						var part tensor.Value
						if whole.DType() == tensor.TypeString {
							part = optest.Tensor(tensor.MustData[string](whole)[i*size:][:size], row.Shape()...)
						} else if whole.DType() == tensor.TypeInt64 {
							part = optest.Tensor(tensor.MustData[int64](whole)[i*size:][:size], row.Shape()...)
						} else {
							part = optest.Tensor(tensor.MustData[float32](whole)[i*size:][:size], row.Shape()...)
						}
						if !optest.Same(part, row, 1e-5) {
							t.Fatalf("%s %s: output %d of row %d of %d is %s, alone %s", kind, c.op, k, i, n,
								optest.Show(part), optest.Show(row))
						}
					}
				}
			}
		}
	}
}

// TestLabelEncoderFew looks up lists of every length around a block with few keys, of which NaN may
// be one.
func TestLabelEncoderFew(t *testing.T) {
	nan := float32(math.NaN())
	for _, keys := range [][]float32{{}, {1}, {0, nan}, {3, 1, nan, 2, 7, 8, 9, 4}, {5, 6, 7, 8, 1, 2, 3, 4, 9, 10}} {
		values := make([]int64, len(keys))
		for i := range values {
			values[i] = int64(i) + 10
		}
		attrs := map[string]any{"keys_tensor": optest.Tensor(keys, len(keys)),
			"values_tensor": optest.Tensor(values, len(keys)), "default_int64": -3}
		for _, n := range []int{0, 1, 15, lookUpBlock - 1, lookUpBlock, lookUpBlock + 1, 3*lookUpBlock + 7} {
			x, want := make([]float32, n), make([]int64, n)
			for i := range x {
				x[i], want[i] = float32(i*7%12), -3
				if i%5 == 4 {
					x[i] = nan
				} else if i%12 == 0 {
					x[i] = float32(math.Copysign(0, -1))
				}
				for k, v := range keys {
					if v == x[i] || v != v && x[i] != x[i] {
						want[i] = values[k]
					}
				}
			}
			optest.Want(t, "ai.onnx.ml.LabelEncoder", 4, attrs, optest.Tensor(want, n), optest.Tensor(x, n))
		}
	}
}
