package ops

import (
	"strings"
	"testing"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

func seqOf(items ...tensor.Value) *tensor.Sequence {
	return &tensor.Sequence{Elem: tensor.TensorType(tensor.TypeFloat32), Items: items}
}

func TestSequences(t *testing.T) {
	a, b, z := moveIota(2), moveIota(3), moveIota(1, 2)
	s := seqOf(a, b)
	wantOp(t, "SequenceConstruct", 11, nil, s, a, b)
	failOp(t, "SequenceConstruct", 11, nil, "bound", a, i64s(1))
	wantOp(t, "SequenceEmpty", 11, attrs{"dtype": tensor.TypeInt64}, &tensor.Sequence{})
	failOp(t, "SequenceEmpty", 11, attrs{"dtype": 99}, "no element type")
	wantOp(t, "SequenceInsert", 11, nil, seqOf(a, b, z), s, z)
	wantOp(t, "SequenceInsert", 11, nil, seqOf(z, a, b), s, z, tensor.Scalar[int32](-2))
	wantOp(t, "SequenceInsert", 11, nil, seqOf(a, b, z), s, z, tensor.Scalar[int64](2))
	failOp(t, "SequenceInsert", 11, nil, "position 3", s, z, tensor.Scalar[int64](3))
	failOp(t, "SequenceInsert", 11, nil, "bound", s, i64s(1))
	wantOp(t, "SequenceErase", 11, nil, seqOf(a), s)
	wantOp(t, "SequenceErase", 11, nil, seqOf(b), s, tensor.Scalar[int64](0))
	failOp(t, "SequenceErase", 11, nil, "empty", seqOf())
	failOp(t, "SequenceErase", 11, nil, "position", s, tensor.Scalar[int64](-1<<63))
	wantOp(t, "SequenceAt", 11, nil, b, s, tensor.Scalar[int64](-1))
	failOp(t, "SequenceAt", 11, nil, "position 2", s, tensor.Scalar[int64](2))
	wantOp(t, "SequenceLength", 11, nil, tensor.Scalar[int64](2), s)
	wantOp(t, "SplitToSequence", 11, nil, seqOf(moveIota(1), tt([]float32{1}, 1)), a)
	wantOp(t, "SplitToSequence", 24, attrs{"keepdims": 0, "axis": 1}, seqOf(tt([]float32{0}, 1), tt([]float32{1}, 1)), z)
	wantOp(t, "SplitToSequence", 11, nil, seqOf(a, tt([]float32{2}, 1)), b, tensor.Scalar[int64](2))
	wantOp(t, "SplitToSequence", 11, attrs{"keepdims": 0}, seqOf(moveIota(0), b), b, i64s(0, 3))
	failOp(t, "SplitToSequence", 11, nil, "at least 1", b, tensor.Scalar[int64](0))
	failOp(t, "SplitToSequence", 11, nil, "add up", b, i64s(4))
	failOp(t, "SplitToSequence", 11, nil, "memory limit", tensor.Must(tensor.New([]float32{}, 1<<30, 0)))
	wantOp(t, "ConcatFromSequence", 11, attrs{"axis": 0}, tt([]float32{0, 1, 0, 1, 2}), s)
	wantOp(t, "ConcatFromSequence", 11, attrs{"axis": -1, "new_axis": 1}, tt([]float32{0, 0, 1, 1}, 2, 2), seqOf(a, a))
	failOp(t, "ConcatFromSequence", 11, attrs{"axis": 0, "new_axis": 1}, "differ", s)
	failOp(t, "ConcatFromSequence", 11, attrs{"axis": 0}, "empty", seqOf())
	failOp(t, "ConcatFromSequence", 11, attrs{"axis": 1}, "axis 1", s)
}

func TestOptionals(t *testing.T) {
	a := moveIota(2)
	full := &tensor.Optional{Elem: a.Type(), Value: a}
	none := &tensor.Optional{Elem: a.Type()}
	wantOp(t, "Optional", 15, nil, full, a)
	wantOp(t, "Optional", 15, attrs{"type": ir.UnrankedTensor(tensor.TypeFloat32)}, none)
	failOp(t, "Optional", 15, nil, "type is missing")
	failOp(t, "Optional", 15, attrs{"type": ir.UnrankedTensor(tensor.TypeInt8)}, "attribute type", a)
	wantOp(t, "OptionalGetElement", 15, nil, a, full)
	wantOp(t, "OptionalGetElement", 18, nil, seqOf(a), seqOf(a))
	failOp(t, "OptionalGetElement", 18, nil, "empty", none)
	for v, want := range map[tensor.Value]bool{full: true, none: false, a: true} {
		wantOp(t, "OptionalHasElement", 18, nil, tensor.Scalar(want), v)
	}
	wantOp(t, "OptionalHasElement", 18, nil, tensor.Scalar(false))
	wantOp(t, "Identity", 16, nil, none, none)
	wantOp(t, "Identity", 14, nil, seqOf(a), seqOf(a))
}

func TestStrings(t *testing.T) {
	wantOp(t, "StringConcat", 20, nil, tt([]string{"ax", "ay", "bx", "by"}, 2, 2), tt([]string{"a", "b"}, 2, 1), tt([]string{"x", "y"}))
	wantOp(t, "StringConcat", 20, nil, tt([]string{}, 0), tt([]string{}, 0), tt([]string{"x"}, 1))
	words := tt([]string{"Monday", "tuesday", "MONDAY"})
	wantOp(t, "StringNormalizer", 10, attrs{"stopwords": []string{"monday"}, "case_change_action": "UPPER", "locale": "en_US"}, tt([]string{"TUESDAY"}, 1), words)
	wantOp(t, "StringNormalizer", 10, attrs{"stopwords": []string{"Monday"}, "is_case_sensitive": 1}, tt([]string{"tuesday", "MONDAY"}), words)
	wantOp(t, "StringNormalizer", 10, attrs{"stopwords": []string{"a"}}, tt([]string{""}, 1, 1), tt([]string{"a", "A"}, 1, 2))
	failOp(t, "StringNormalizer", 10, nil, "want [C]", tt([]string{"a", "b"}, 2, 1))
	wantOps(t, "StringSplit", 20, nil, []tensor.Value{tt([]string{"a", "b", "", ""}, 2, 2), i64s(2, 0)}, tt([]string{" a\t b ", "  "}))
	wantOps(t, "StringSplit", 20, attrs{"maxsplit": 1}, []tensor.Value{tt([]string{"a", "b  c "}, 1, 2), i64s(2)}, tt([]string{" a b  c "}, 1))
	wantOps(t, "StringSplit", 20, attrs{"delimiter": ",", "maxsplit": 1}, []tensor.Value{tt([]string{"a", ",b", "", ""}, 2, 2), i64s(2, 1)}, tt([]string{"a,,b", ""}))
	wantOps(t, "StringSplit", 20, attrs{"maxsplit": 0}, []tensor.Value{tt([]string{"a b"}, 1, 1), i64s(1)}, tt([]string{" a b"}, 1))
	rows := make([]string, 1<<13)
	rows[0] = strings.Repeat(",", 1<<13)
	failOp(t, "StringSplit", 20, attrs{"delimiter": ","}, "memory limit", tt(rows))
	wantOp(t, "RegexFullMatch", 20, attrs{"pattern": "a|ab"}, tt([]bool{true, true, false, false}), tt([]string{"a", "ab", "abc", "a\n"}))
	wantOp(t, "RegexFullMatch", 20, attrs{"pattern": "(x+x+)+y"}, tt([]bool{false}, 1), tt([]string{strings.Repeat("x", 1<<17)}, 1))
	failOp(t, "RegexFullMatch", 20, attrs{"pattern": "a)(?:b"}, "pattern", words)
	failOp(t, "RegexFullMatch", 20, attrs{"pattern": "((((x{50}){50}){50}){50}){50}"}, "pattern", words)
	failOp(t, "RegexFullMatch", 20, attrs{"pattern": strings.Repeat("x", 1<<15)}, "bytes", words)
}

func TestTfIdf(t *testing.T) {
	a := attrs{"mode": "TFIDF", "min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 1, "ngram_counts": []int{0, 2},
		"ngram_indexes": []int{2, 0, 1}, "pool_int64s": []int{5, 6, 5, 6}, "weights": []float64{1, 10, 100}}
	// 6 occurs twice, 5 once; 5 6 once side by side and once with a gap. The first
	// n-gram of the pool is in the last column.
	wantOp(t, "TfIdfVectorizer", 9, a, tt([]float32{20, 200, 1}, 1, 3), tt([]int32{5, 6, 6}, 1, 3))
	a["mode"] = "IDF"
	wantOp(t, "TfIdfVectorizer", 9, a, tt([]float32{10, 100, 1}), i64s(5, 6, 6))
	a["max_skip_count"] = 1 << 62
	wantOp(t, "TfIdfVectorizer", 9, a, tt([]float32{0, 0, 0}), i64s())
	a["ngram_counts"] = []int{0, 9}
	failOp(t, "TfIdfVectorizer", 9, a, "pool", i64s(1))
	a["ngram_counts"], a["ngram_indexes"] = []int{0, 2}, []int{0, -1, 2}
	failOp(t, "TfIdfVectorizer", 9, a, "position 1", i64s(1))
	a["ngram_indexes"], a["weights"] = []int{0, 1 << 39, 1}, []float64{1, 1, 1}
	failOp(t, "TfIdfVectorizer", 9, a, "memory limit", i64s(1))
}
