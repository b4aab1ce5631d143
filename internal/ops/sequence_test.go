package ops

import (
	"math"
	"strings"
	"testing"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/testing/optest"
	"github.com/onward-ml/onward/tensor"
)

func seqOf(items ...tensor.Value) *tensor.Sequence {
	return &tensor.Sequence{Elem: tensor.TensorType(tensor.TypeFloat32), Items: items}
}

func TestSequences(t *testing.T) {
	a, b, z := moveIota(2), moveIota(3), moveIota(1, 2)
	s := seqOf(a, b)
	optest.Want(t, "SequenceConstruct", 11, nil, s, a, b)
	optest.Fail(t, "SequenceConstruct", 11, nil, "bound", a, optest.Int64s(1))
	optest.Want(t, "SequenceEmpty", 11, optest.Attrs{"dtype": tensor.TypeInt64}, &tensor.Sequence{})
	optest.Fail(t, "SequenceEmpty", 11, optest.Attrs{"dtype": 99}, "want an element type")
	optest.Want(t, "SequenceInsert", 11, nil, seqOf(a, b, z), s, z)
	optest.Want(t, "SequenceInsert", 11, nil, seqOf(z, a, b), s, z, tensor.Scalar[int32](-2))
	optest.Want(t, "SequenceInsert", 11, nil, seqOf(a, b, z), s, z, tensor.Scalar[int64](2))
	optest.Fail(t, "SequenceInsert", 11, nil, "position 3", s, z, tensor.Scalar[int64](3))
	optest.Fail(t, "SequenceInsert", 11, nil, "bound", s, optest.Int64s(1))
	optest.Want(t, "SequenceErase", 11, nil, seqOf(a), s)
	optest.Want(t, "SequenceErase", 11, nil, seqOf(b), s, tensor.Scalar[int64](0))
	optest.Fail(t, "SequenceErase", 11, nil, "empty", seqOf())
	optest.Fail(t, "SequenceErase", 11, nil, "position", s, tensor.Scalar[int64](-1<<63))
	optest.Want(t, "SequenceAt", 11, nil, b, s, tensor.Scalar[int64](-1))
	optest.Fail(t, "SequenceAt", 11, nil, "position 2", s, tensor.Scalar[int64](2))
	optest.Want(t, "SequenceLength", 11, nil, tensor.Scalar[int64](2), s)
	optest.Want(t, "SplitToSequence", 11, nil, seqOf(moveIota(1), optest.Tensor([]float32{1}, 1)), a)
	optest.Want(t, "SplitToSequence", 24, optest.Attrs{"keepdims": 0, "axis": 1},
		seqOf(optest.Tensor([]float32{0}, 1), optest.Tensor([]float32{1}, 1)), z)
	optest.Want(t, "SplitToSequence", 11, nil, seqOf(a, optest.Tensor([]float32{2}, 1)), b, tensor.Scalar[int64](2))
	optest.Want(t, "SplitToSequence", 11, optest.Attrs{"keepdims": 0}, seqOf(moveIota(0), b), b, optest.Int64s(0, 3))
	optest.Fail(t, "SplitToSequence", 11, nil, "at least 1", b, tensor.Scalar[int64](0))
	optest.Fail(t, "SplitToSequence", 11, nil, "add up", b, optest.Int64s(4))
	optest.Fail(t, "SplitToSequence", 11, nil, "memory limit", tensor.Must(tensor.New([]float32{}, 1<<30, 0)))
	optest.Want(t, "ConcatFromSequence", 11, optest.Attrs{"axis": 0}, optest.Tensor([]float32{0, 1, 0, 1, 2}), s)
	optest.Want(t, "ConcatFromSequence", 11, optest.Attrs{"axis": -1, "new_axis": 1},
		optest.Tensor([]float32{0, 0, 1, 1}, 2, 2), seqOf(a, a))
	optest.Fail(t, "ConcatFromSequence", 11, optest.Attrs{"axis": 0, "new_axis": 1}, "differ", s)
	optest.Fail(t, "ConcatFromSequence", 11, optest.Attrs{"axis": 0}, "empty", seqOf())
	optest.Fail(t, "ConcatFromSequence", 11, optest.Attrs{"axis": 1}, "axis 1", s)
}

// TestConcatOfManyItems reserves the memory of the reshaped items, and checks the context.
func TestConcatOfManyItems(t *testing.T) {
	items := make([]tensor.Value, 1<<16)
	for i := range items {
		items[i] = f32(1)
	}
	b, err := optest.Build("ConcatFromSequence", 11, optest.Attrs{"axis": 0, "new_axis": 1}, 1, -1)
	if err != nil {
		t.Fatal(err)
	}
	run := func(env *optest.Env) error {
		return optest.RunCaught(b.Node.Op, &ir.Call{Node: b.Node, Env: env, In: []tensor.Value{seqOf(items...)},
			Out: make([]tensor.Value, b.NumOut)})
	}
	err = run(&optest.Env{Ctx: t.Context(), Limit: 8 << 20})
	if err == nil || !strings.Contains(err.Error(), "limit") {
		t.Errorf("got %v, want an error for the memory limit", err)
	}
	ctx := &countdown{Context: t.Context(), left: 30}
	if err := run(&optest.Env{Ctx: ctx, Limit: optest.MemoryLimit}); err == nil || ctx.calls > 40 {
		t.Errorf("got %v after %d checks of a context that ends at the 30th", err, ctx.calls)
	}
}

func TestOptionals(t *testing.T) {
	a := moveIota(2)
	full := &tensor.Optional{Elem: a.Type(), Value: a}
	none := &tensor.Optional{Elem: a.Type()}
	optest.Want(t, "Optional", 15, nil, full, a)
	optest.Want(t, "Optional", 15, optest.Attrs{"type": ir.UnrankedTensor(tensor.TypeFloat32)}, none)
	optest.Fail(t, "Optional", 15, nil, "type is missing")
	optest.Fail(t, "Optional", 15, optest.Attrs{"type": ir.UnrankedTensor(tensor.TypeInt8)}, "attribute type", a)
	optest.Want(t, "OptionalGetElement", 15, nil, a, full)
	optest.Want(t, "OptionalGetElement", 18, nil, seqOf(a), seqOf(a))
	optest.Fail(t, "OptionalGetElement", 18, nil, "empty", none)
	for v, want := range map[tensor.Value]bool{full: true, none: false, a: true} {
		optest.Want(t, "OptionalHasElement", 18, nil, tensor.Scalar(want), v)
	}
	optest.Want(t, "OptionalHasElement", 18, nil, tensor.Scalar(false))
	optest.Want(t, "Identity", 16, nil, none, none)
	optest.Want(t, "Identity", 14, nil, seqOf(a), seqOf(a))
}

func TestStrings(t *testing.T) {
	optest.Want(t, "StringConcat", 20, nil, optest.Tensor([]string{"ax", "ay", "bx", "by"}, 2, 2),
		optest.Tensor([]string{"a", "b"}, 2, 1), optest.Tensor([]string{"x", "y"}))
	optest.Want(t, "StringConcat", 20, nil, optest.Tensor([]string{}, 0), optest.Tensor([]string{}, 0),
		optest.Tensor([]string{"x"}, 1))
	words := optest.Tensor([]string{"Monday", "tuesday", "MONDAY"})
	optest.Want(t, "StringNormalizer", 10, optest.Attrs{"stopwords": []string{"monday"}, "case_change_action": "UPPER",
		"locale": "en_US"}, optest.Tensor([]string{"TUESDAY"}, 1), words)
	optest.Want(t, "StringNormalizer", 10, optest.Attrs{"stopwords": []string{"Monday"}, "is_case_sensitive": 1},
		optest.Tensor([]string{"tuesday", "MONDAY"}), words)
	optest.Want(t, "StringNormalizer", 10, optest.Attrs{"stopwords": []string{"a"}}, optest.Tensor([]string{""}, 1, 1),
		optest.Tensor([]string{"a", "A"}, 1, 2))
	optest.Fail(t, "StringNormalizer", 10, nil, "want [C]", optest.Tensor([]string{"a", "b"}, 2, 1))
	optest.WantAll(t, "StringSplit", 20, nil, []tensor.Value{optest.Tensor([]string{"a", "b", "", ""}, 2, 2),
		optest.Int64s(2, 0)}, optest.Tensor([]string{" a\t b ", "  "}))
	optest.WantAll(t, "StringSplit", 20, optest.Attrs{"maxsplit": 1},
		[]tensor.Value{optest.Tensor([]string{"a", "b  c "}, 1, 2), optest.Int64s(2)},
		optest.Tensor([]string{" a b  c "}, 1))
	optest.WantAll(t, "StringSplit", 20, optest.Attrs{"delimiter": ",", "maxsplit": 1},
		[]tensor.Value{optest.Tensor([]string{"a", ",b", "", ""}, 2, 2), optest.Int64s(2, 1)},
		optest.Tensor([]string{"a,,b", ""}))
	optest.WantAll(t, "StringSplit", 20, optest.Attrs{"maxsplit": 0},
		[]tensor.Value{optest.Tensor([]string{"a b"}, 1, 1), optest.Int64s(1)}, optest.Tensor([]string{" a b"}, 1))
	rows := make([]string, 1<<13)
	rows[0] = strings.Repeat(",", 1<<13)
	optest.Fail(t, "StringSplit", 20, optest.Attrs{"delimiter": ","}, "memory limit", optest.Tensor(rows))
	optest.Want(t, "RegexFullMatch", 20, optest.Attrs{"pattern": "a|ab"},
		optest.Tensor([]bool{true, true, false, false}), optest.Tensor([]string{"a", "ab", "abc", "a\n"}))
	optest.Want(t, "RegexFullMatch", 20, optest.Attrs{"pattern": "(x+x+)+y"}, optest.Tensor([]bool{false}, 1),
		optest.Tensor([]string{strings.Repeat("x", 1<<17)}, 1))
	optest.Fail(t, "RegexFullMatch", 20, optest.Attrs{"pattern": "a)(?:b"}, "pattern", words)
	optest.Fail(t, "RegexFullMatch", 20, optest.Attrs{"pattern": "((((x{50}){50}){50}){50}){50}"}, "pattern", words)
	optest.Fail(t, "RegexFullMatch", 20, optest.Attrs{"pattern": strings.Repeat("x", 1<<15)}, "bytes", words)
}

// TestTfIdfFindsDenseAndSparseNumbers counts n-grams of numbers at the ends of int64, for a map,
// and of adjacent ones, for a table.
func TestTfIdfFindsDenseAndSparseNumbers(t *testing.T) {
	a := optest.Attrs{"mode": "TF", "min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 0,
		"ngram_counts": []int{0, 2}, "ngram_indexes": []int{0, 1, 2},
		"pool_int64s": []int{math.MinInt64, math.MaxInt64, math.MinInt64, 7}}
	optest.Want(t, "TfIdfVectorizer", 9, a, optest.Tensor([]float32{2, 1, 1}),
		optest.Int64s(math.MinInt64, 7, math.MinInt64, 6, math.MaxInt64, 8))
	a["pool_int64s"] = []int{-3, 2, 2, 7}
	optest.Want(t, "TfIdfVectorizer", 9, a, optest.Tensor([]float32{1, 2, 1}),
		optest.Int64s(2, 7, -4, -3, 3, math.MaxInt64, math.MinInt64, 2))
}

// TestTfIdfOfOtherElementsThanThePool counts nothing where the pool has strings and the input
// integers, or the reverse.
func TestTfIdfOfOtherElementsThanThePool(t *testing.T) {
	a := optest.Attrs{"mode": "TF", "min_gram_length": 1, "max_gram_length": 1, "max_skip_count": 0,
		"ngram_counts": []int{0}, "ngram_indexes": []int{0, 1},
		"pool_strings": []string{"a", "b"}}
	optest.Want(t, "TfIdfVectorizer", 9, a, optest.Tensor([]float32{0, 0}), optest.Int64s(0, 1))
	optest.Want(t, "TfIdfVectorizer", 9, a, optest.Tensor([]float32{0, 0}), optest.Tensor([]int32{1, 0}))
	delete(a, "pool_strings")
	a["pool_int64s"] = []int{-1, 0}
	optest.Want(t, "TfIdfVectorizer", 9, a, optest.Tensor([]float32{0, 0}), optest.Tensor([]string{"a", "-1"}))
}

// TestTfIdfOfOneColumnForTwoNumbers returns the weight of the one that occurs last, as in ONNX
// Runtime.
func TestTfIdfOfOneColumnForTwoNumbers(t *testing.T) {
	a := optest.Attrs{"mode": "IDF", "min_gram_length": 1, "max_gram_length": 1, "max_skip_count": 0,
		"ngram_counts": []int{0}, "ngram_indexes": []int{0, 1, 1}, "pool_int64s": []int{5, 6, 7},
		"weights": []float64{1, 10, 100}}
	optest.Want(t, "TfIdfVectorizer", 9, a, optest.Tensor([]float32{1, 10}), optest.Int64s(5, 7, 7, 6))
	optest.Want(t, "TfIdfVectorizer", 9, a, optest.Tensor([]float32{1, 100}), optest.Int64s(5, 6, 6, 7))
}

func TestTfIdf(t *testing.T) {
	a := optest.Attrs{"mode": "TFIDF", "min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 1,
		"ngram_counts":  []int{0, 2},
		"ngram_indexes": []int{2, 0, 1}, "pool_int64s": []int{5, 6, 5, 6}, "weights": []float64{1, 10, 100}}
	// 6 occurs twice and 5 once; 5 6 occurs once without a gap and once with one. The first
	// n-gram of the pool is in the last column.
	optest.Want(t, "TfIdfVectorizer", 9, a, optest.Tensor([]float32{20, 200, 1}, 1, 3),
		optest.Tensor([]int32{5, 6, 6}, 1, 3))
	a["mode"] = "IDF"
	optest.Want(t, "TfIdfVectorizer", 9, a, optest.Tensor([]float32{10, 100, 1}), optest.Int64s(5, 6, 6))
	a["max_skip_count"] = 1 << 62
	optest.Want(t, "TfIdfVectorizer", 9, a, optest.Tensor([]float32{0, 0, 0}), optest.Int64s())
	a["ngram_counts"] = []int{0, 9}
	optest.Fail(t, "TfIdfVectorizer", 9, a, "pool", optest.Int64s(1))
	a["ngram_counts"], a["ngram_indexes"] = []int{0, 2}, []int{0, -1, 2}
	optest.Fail(t, "TfIdfVectorizer", 9, a, "position 1", optest.Int64s(1))
	a["ngram_indexes"], a["weights"] = []int{0, 1 << 39, 1}, []float64{1, 1, 1}
	optest.Fail(t, "TfIdfVectorizer", 9, a, "memory limit", optest.Int64s(1))
}
