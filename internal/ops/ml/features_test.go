package ml

import (
	"math"
	"testing"

	"github.com/onward-ml/onward/internal/testing/optest"
	"github.com/onward-ml/onward/tensor"
)

func TestLabelEncoderForms(t *testing.T) {
	const op = "ai.onnx.ml.LabelEncoder"
	nan := float32(math.NaN())
	optest.Want(t, op, 2, map[string]any{"keys_floats": []float64{1.5, math.NaN()}, "values_int64s": []int{8, 9}}, optest.Tensor([]int64{9, 8, -1}), optest.Tensor([]float32{nan, 1.5, 2}))
	// Of equal keys the last one counts.
	optest.Want(t, op, 4, map[string]any{"keys_int64s": []int{1, 1}, "values_strings": []string{"u", "v"}}, optest.Tensor([]string{"v", "_Unused"}), optest.Tensor([]int64{1, 2}))
	types := []*tensor.Tensor{optest.Tensor([]string{"a", "b"}), optest.Tensor([]int64{1, 2}), optest.Tensor([]float32{1, 2}), optest.Tensor([]int32{1, 2}), optest.Tensor([]int16{1, 2}), optest.Tensor([]float64{1, 2})}
	defaults := []*tensor.Tensor{optest.Tensor([]string{"b"}, 1), optest.Tensor([]int64{2}, 1), optest.Tensor([]float32{2}, 1), optest.Tensor([]int32{2}, 1), optest.Tensor([]int16{2}, 1), optest.Tensor([]float64{2}, 1)}
	for _, k := range types {
		for j, v := range types {
			optest.Want(t, op, 4, map[string]any{"keys_tensor": k, "values_tensor": v, "default_tensor": defaults[j]}, v, k)
		}
	}
	optest.Fail(t, op, 4, map[string]any{"keys_int64s": []int{1}, "values_int64s": []int{1, 2}}, "shapes [1] and [2]", optest.Tensor([]int64{1, 2}))
	optest.Fail(t, op, 4, map[string]any{"keys_int64s": []int{1}}, "0 attributes values_*", optest.Tensor([]int64{1, 2}))
	optest.Fail(t, op, 4, map[string]any{"keys_int64s": []int{1}, "values_int64s": []int{1}}, "X has type string", optest.Tensor([]string{"a", "b"}))
	optest.Fail(t, op, 4, map[string]any{"keys_tensor": optest.Tensor([]uint8{1}, 1), "values_int64s": []int{1}}, "keys are uint8", optest.Tensor([]int64{1, 2}))
	optest.Fail(t, op, 2, map[string]any{"keys_tensor": types[0], "values_int64s": []int{1}}, "0 attributes keys_*", optest.Tensor([]string{"a"}, 1))
}

func TestBinarizerTypes(t *testing.T) {
	const op = "ai.onnx.ml.Binarizer"
	attrs := map[string]any{"threshold": 1.5}
	nan, inf := math.NaN(), math.Inf(1)
	optest.Want(t, op, 1, attrs, optest.Tensor([]float32{0, 1, 0, 1, 0}), optest.Tensor([]float32{1.5, 1.75, float32(nan), float32(inf), float32(-inf)}))
	optest.Want(t, op, 1, attrs, optest.Tensor([]float64{0, 1, 0, 1, 0}), optest.Tensor([]float64{1.5, 1.5000001, nan, inf, -inf}))
	optest.Want(t, op, 1, attrs, optest.Tensor([]int32{0, 0, 1, 1}), optest.Tensor([]int32{-2, 1, 2, math.MaxInt32}))
	optest.Want(t, op, 1, attrs, optest.Tensor([]int64{0, 0, 1, 1}), optest.Tensor([]int64{-2, 1, 2, math.MaxInt64}))
	optest.Want(t, op, 1, nil, optest.Tensor([]float32{0, 0, 1}), optest.Tensor([]float32{float32(math.Copysign(0, -1)), 0, 1e-45}))
}

func TestMLFeatureErrors(t *testing.T) {
	optest.Fail(t, "ai.onnx.ml.ArrayFeatureExtractor", 1, nil, "index 1 is 3, want 0 to 2", optest.Tensor([]int32{1, 2, 3}), optest.Tensor([]int64{0, 3}))
	optest.Fail(t, "ai.onnx.ml.ArrayFeatureExtractor", 1, nil, "index 0 is -1", optest.Tensor([]int32{1, 2, 3}), optest.Tensor([]int64{-1, 3}))
	optest.Fail(t, "ai.onnx.ml.ArrayFeatureExtractor", 1, nil, "scalar", optest.Tensor([]int32{1}), optest.Tensor([]int64{0, 3}))
	optest.Want(t, "ai.onnx.ml.ArrayFeatureExtractor", 1, nil, optest.Tensor([]int32{}, 1, 0), optest.Tensor([]int32{1, 2}), optest.Tensor([]int64{}))
	optest.Fail(t, "ai.onnx.ml.Imputer", 1, map[string]any{"imputed_value_floats": []float64{1}}, "X is int64", optest.Tensor([]int64{1, 2}))
	optest.Fail(t, "ai.onnx.ml.Imputer", 1, nil, "want one of the two", optest.Tensor([]int64{1, 2}))
	optest.Fail(t, "ai.onnx.ml.Imputer", 1, map[string]any{"imputed_value_int64s": []int{1, 2, 3}}, "want 1 or 2", optest.Tensor([]int64{1, 2}))
	optest.Fail(t, "ai.onnx.ml.OneHotEncoder", 1, map[string]any{"cats_int64s": []int{1}, "zeros": 0}, "element 1 is 2", optest.Tensor([]int64{1, 2}))
	optest.Want(t, "ai.onnx.ml.OneHotEncoder", 1, map[string]any{"cats_int64s": []int{math.MinInt64, math.MaxInt64}},
		optest.Tensor([]float32{1, 0, 0, 1}, 2, 2), optest.Tensor([]int64{math.MinInt64, math.MaxInt64}))
	optest.Want(t, "ai.onnx.ml.OneHotEncoder", 1, map[string]any{"cats_int64s": []int{0}}, optest.Tensor([]float32{0, 0}, 2, 1), optest.Tensor([]float64{math.NaN(), math.Inf(1)}))
	optest.Fail(t, "ai.onnx.ml.OneHotEncoder", 1, map[string]any{"cats_strings": []string{"a"}}, "want the type of the categories", optest.Tensor([]int64{1, 2}))
	optest.Want(t, "ai.onnx.ml.FeatureVectorizer", 1, map[string]any{"inputdimensions": []int{2, 4}}, optest.Tensor([]float32{}, 0, 6), optest.Tensor([]float32{}, 0, 0), optest.Tensor([]float32{}, 0, 0, 0)) // no rows
	optest.Fail(t, "ai.onnx.ml.FeatureVectorizer", 1, map[string]any{"inputdimensions": []int{1}}, "1 elements, want 2", optest.Tensor([]int64{1, 2}), optest.Tensor([]int64{1, 2}))
	optest.Fail(t, "ai.onnx.ml.FeatureVectorizer", 1, map[string]any{"inputdimensions": []int{-1}}, "inputdimensions holds -1", optest.Tensor([]int64{1, 2}))
	optest.Fail(t, "ai.onnx.ml.FeatureVectorizer", 1, nil, "a scalar", optest.Tensor([]int64{1}, []int{}...))
	optest.Fail(t, "ai.onnx.ml.FeatureVectorizer", 1, nil, "numbers of rows", optest.Tensor([]int64{1, 2}, 2, 1), optest.Tensor([]int64{1, 2}, 1, 2))
	optest.Fail(t, "ai.onnx.ml.CategoryMapper", 1, map[string]any{"cats_strings": []string{"a"}}, "shapes [1] and [0]", optest.Tensor([]int64{1, 2}))
}

func TestMaps(t *testing.T) {
	m := func(keys, values *tensor.Tensor) tensor.Value { return &tensor.Map{Keys: keys, Values: values} }
	words := m(optest.Tensor([]int64{3, 1}), optest.Tensor([]string{"7", "9"}))
	optest.Want(t, "ai.onnx.ml.CastMap", 1, nil, optest.Tensor([]float32{9, 7}, 1, 2), words)
	optest.Want(t, "ai.onnx.ml.CastMap", 1, map[string]any{"cast_to": "TO_INT64", "map_form": "SPARSE", "max_map": 4}, optest.Tensor([]int64{0, 9, 0, 7}, 1, 4), words)
	optest.Want(t, "ai.onnx.ml.CastMap", 1, map[string]any{"cast_to": "TO_STRING"}, optest.Tensor([]string{"9", "7"}, 1, 2), words)
	optest.Fail(t, "ai.onnx.ml.CastMap", 1, map[string]any{"map_form": "SPARSE", "max_map": 3}, "key 3 is out of range", words)
	optest.Fail(t, "ai.onnx.ml.CastMap", 1, map[string]any{"cast_to": "TO_INT64"}, `value "x" is not an integer`, m(optest.Tensor([]int64{1}, 1), optest.Tensor([]string{"x"}, 1)))
	optest.Fail(t, "ai.onnx.ml.CastMap", 1, map[string]any{"cast_to": "TO_INT64"}, "out of the range", m(optest.Tensor([]int64{1}, 1), optest.Tensor([]float32{float32(math.Inf(1))}, 1)))
	optest.Want(t, "ai.onnx.ml.DictVectorizer", 1, map[string]any{"int64_vocabulary": []int{1, 2, 3}}, optest.Tensor([]string{"9", "", "7"}, 1, 3), words)
	optest.Want(t, "ai.onnx.ml.DictVectorizer", 1, map[string]any{"string_vocabulary": []string{"a", "b"}}, optest.Tensor([]int64{5, 0}, 1, 2), m(optest.Tensor([]string{"a", "q"}), optest.Tensor([]int64{5, 6})))
	optest.Want(t, "ai.onnx.ml.DictVectorizer", 1, map[string]any{"string_vocabulary": []string{"a", "b"}}, optest.Tensor([]float64{0, 6}, 1, 2), m(optest.Tensor([]string{"b"}, 1), optest.Tensor([]float64{6}, 1)))
	optest.Fail(t, "ai.onnx.ml.DictVectorizer", 1, map[string]any{"string_vocabulary": []string{"a"}}, "vocabulary has type string", words)
}

func TestBrokenSVMs(t *testing.T) {
	x := optest.Tensor([]float32{1, 2}, 1, 2)
	base := func(change string, v any) map[string]any {
		a := map[string]any{"vectors_per_class": []int{1, 1}, "support_vectors": []float64{1, 2, 3, 4}, "coefficients": []float64{1, 2},
			"rho": []float64{0}, "classlabels_ints": []int{1, 2}}
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
	optest.Fail(t, "ai.onnx.ml.SVMRegressor", 1, map[string]any{"n_supports": 3, "coefficients": []float64{1}}, "n_supports is 3, but there are 1", x)
	optest.Fail(t, "ai.onnx.ml.SVMRegressor", 1, map[string]any{"coefficients": []float64{1}}, "coefficients has 1 elements, want 1 × 2", x)
}
