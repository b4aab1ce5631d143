package gradops_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	_ "github.com/onward-ml/onward/internal/ops" // the plain operators
	_ "github.com/onward-ml/onward/internal/ops/gradops"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/testing/optest"
	"github.com/onward-ml/onward/tensor"
)

var inf = math.Inf(1)

// normal returns normally distributed numbers.
func normal(seed uint64, dims ...int) *tensor.Tensor {
	t := tensor.Must(tensor.Zeros(tensor.TypeFloat64, dims...))
	rng := rand.New(rand.NewPCG(seed, 4))
	for i := range tensor.MustData[float64](t) {
		tensor.MustData[float64](t)[i] = rng.NormFloat64()
	}
	return t
}

// count returns 1, 2, 3, … in a shape.
func count(dims ...int) *tensor.Tensor {
	t := tensor.Must(tensor.Zeros(tensor.TypeFloat64, dims...))
	for i := range tensor.MustData[float64](t) {
		tensor.MustData[float64](t)[i] = float64(i + 1)
	}
	return t
}

// like returns a tensor of which only the shape matters.
func like(dims ...int) *tensor.Tensor { return tensor.Must(tensor.Zeros(tensor.TypeFloat64, dims...)) }

func floats(dims []int, v ...float64) *tensor.Tensor { return optest.Tensor(v, dims...) }

func numbers(dims []int, v ...int64) *tensor.Tensor { return optest.Tensor(v, dims...) }

// plain runs an operator of ONNX.
func plain(t *testing.T, name string, opset int, attrs optest.Attrs, in ...tensor.Value) *tensor.Tensor {
	t.Helper()
	out, err := optest.RunN(t, 1, name, opset, attrs, in...)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return out[0].(*tensor.Tensor)
}

func reshaped(x *tensor.Tensor, dims ...int) *tensor.Tensor { return tensor.Must(x.Reshape(dims...)) }

type values = []tensor.Value

// row is a case of a table: an operator, its inputs, and its output or a part of its error.
type row struct {
	op    string
	attrs optest.Attrs
	in    values
	want  *tensor.Tensor
	fails string
}

func check(t *testing.T, rows []row) {
	t.Helper()
	for _, r := range rows {
		if r.fails != "" {
			optest.Fail(t, "onward."+r.op, 1, r.attrs, r.fails, r.in...)
			continue
		}
		optest.Want(t, "onward."+r.op, 1, r.attrs, r.want, r.in...)
	}
}

func factor(f float64) optest.Attrs { return optest.Attrs{"factor": f} }

// shapeRows are operators that move, sum or repeat elements.
func shapeRows(t *testing.T) []row {
	x := normal(1, 2, 3, 4)
	sum := func(x *tensor.Tensor, axes ...int64) *tensor.Tensor {
		return plain(t, "ReduceSum", 13, nil, x, optest.Int64s(axes...))
	}
	expand := func(x *tensor.Tensor, dims ...int64) *tensor.Tensor {
		return plain(t, "Expand", 13, nil, x, optest.Int64s(dims...))
	}
	half := optest.Tensor([]tensor.Float16{tensor.NewFloat16(1.5), tensor.NewFloat16(-2)}, 2)
	doubled := optest.Tensor([]tensor.Float16{tensor.NewFloat16(3), tensor.NewFloat16(-4)}, 2)
	return []row{
		{op: "SumTo", in: values{x, like(3, 1)}, want: reshaped(sum(x, 0, 2), 3, 1)},
		{op: "SumTo", in: values{x, like(1, 1, 3, 4)}, want: reshaped(sum(x, 0), 1, 1, 3, 4)},
		{op: "SumTo", in: values{x, tensor.Scalar(int64(0))}, want: reshaped(sum(x, 0, 1, 2))},
		{op: "SumTo", in: values{like(0, 3), like(3)}, want: like(3)},
		{op: "SumTo", in: values{x, like(2, 1)}, fails: "shape [2 1] does not broadcast to [2 3 4]"},
		{op: "ExpandTo", in: values{normal(2, 3, 1), like(2, 3, 4)}, want: expand(normal(2, 3, 1), 2, 3, 4)},
		{op: "ExpandTo", in: values{normal(2, 1, 1, 2), like(2)}, want: reshaped(normal(2, 1, 1, 2), 2)},
		{op: "ExpandTo", in: values{normal(2, 3), like(2)}, fails: "shape [3] does not broadcast to [2]"},
		{op: "ReshapeTo", in: values{x, numbers([]int{6, 4}, make([]int64, 24)...)}, want: reshaped(x, 6, 4)},
		{op: "ReshapeTo", in: values{x, like(6, 5)}, fails: "cannot be reshaped to [6 5]"},
		{op: "SwapLast", in: values{x}, want: plain(t, "Transpose", 13, optest.Attrs{"perm": []int{0, 2, 1}}, x)},
		{op: "SwapLast", in: values{like(2, 0, 3)}, want: like(2, 3, 0)},
		{op: "SwapLast", in: values{normal(1, 3)}, fails: "require rank 2 or more, got rank 1"},
		{op: "Fill", attrs: factor(2.5), in: values{x}, want: expand(floats(nil, 2.5), 2, 3, 4)},
		{op: "Scale", attrs: factor(-3), in: values{x}, want: plain(t, "Mul", 13, nil, x, floats(nil, -3))},
		{op: "Scale", attrs: factor(2), in: values{half}, want: doubled},
		{op: "Step", attrs: factor(0.25), in: values{floats([]int{4}, -1, 0, 1e-9, inf)},
			want: floats([]int{4}, 0.25, 0.25, 1, 1)},
		{op: "ChannelSum", in: values{normal(3, 2, 3, 4, 5), like(3)},
			want: reshaped(sum(normal(3, 2, 3, 4, 5), 0, 2, 3), 3)},
		{op: "ChannelSum", in: values{normal(3, 4), like(1)}, want: reshaped(sum(normal(3, 4), 0), 1)},
		{op: "ChannelSum", in: values{like(2, 3, 0), like(3)}, want: like(3)},
		{op: "ChannelSum", in: values{x, like(4)}, fails: "want one element per channel of shape [2 3 4]"},
		{op: "ChannelExpand", in: values{normal(3, 3), like(2, 3, 4)},
			want: expand(reshaped(normal(3, 3), 3, 1), 2, 3, 4)},
		{op: "ChannelExpand", in: values{normal(3, 2), like(2, 3, 4)},
			fails: "want one element per channel of shape [2 3 4]"},
		{op: "SumAxis", attrs: factor(-2), in: values{x}, want: sum(x, 1)},
		{op: "SumAxis", attrs: factor(0), in: values{like(0, 2)}, want: like(1, 2)},
		{op: "SumAxis", attrs: factor(3), in: values{x}, fails: "axis 3 is out of range [-3, 2]"},
		{op: "SumFrom", attrs: factor(1), in: values{x}, want: sum(x, 1, 2)},
		{op: "SumFrom", attrs: factor(-1), in: values{x}, want: sum(x, 2)},
		{op: "SumFrom", attrs: factor(3), in: values{x}, want: x},
		{op: "SumFrom", attrs: factor(4), in: values{x}, fails: "axis 4 is out of range for rank 3"},
	}
}

// indexRows are operators on numbers of elements.
func indexRows() []row {
	channels := reshaped(count(4), 1, 4, 1)
	names := optest.Tensor([]string{"a", "b"}, 2)
	from := numbers([]int{2, 2}, 1, 0, 3, 1)
	scores, targets := like(2, 3, 2), numbers([]int{2, 2}, 0, 2, 1, -7)
	ignore := optest.Attrs{"ignore_index": -7}
	perClass := optest.Attrs{"ignore_index": -7, "per_class": 1}
	return []row{
		{op: "Positions", in: values{names}, want: numbers([]int{2}, 1, 2)},
		{op: "Positions", attrs: factor(0), in: values{count(1, 3)}, want: numbers([]int{1, 3}, 0, 0, 0)},
		{op: "ScatterBack", in: values{floats([]int{4}, 1, 2, 3, 4), from, like(3)}, want: floats([]int{3}, 5, 0, 3)},
		{op: "ScatterBack", attrs: factor(0), in: values{count(4), numbers([]int{4}, 1, 0, 2, 1), like(3)},
			want: floats([]int{3}, 2, 5, 3)},
		{op: "ScatterBack", in: values{count(4), from, like(2)}, fails: "index 3 is out of range for a tensor of 2"},
		{op: "ScatterBack", in: values{count(3), from, like(3)}, fails: "want equal numbers of elements"},
		{op: "GatherBack", in: values{floats([]int{3}, 7, 8, 9), from}, want: floats([]int{2, 2}, 7, 0, 9, 7)},
		{op: "GatherBack", in: values{floats([]int{2}, 7, 8), from},
			fails: "index 3 is out of range for a tensor of 2"},
		{op: "ChannelWindowSum", attrs: factor(3), in: values{channels}, want: floats([]int{1, 4, 1}, 3, 6, 9, 7)},
		{op: "ChannelWindowSum", attrs: factor(2), in: values{channels}, want: floats([]int{1, 4, 1}, 3, 5, 7, 4)},
		{op: "ChannelWindowSum", attrs: factor(-2), in: values{channels}, want: floats([]int{1, 4, 1}, 1, 3, 5, 7)},
		{op: "ChannelWindowSum", attrs: factor(1e9), in: values{channels},
			want: floats([]int{1, 4, 1}, 10, 10, 10, 10)},
		{op: "ChannelWindowSum", attrs: factor(3), in: values{like(2, 0, 3)}, want: like(2, 0, 3)},
		{op: "ChannelWindowSum", in: values{count(3)}, fails: "want rank at least 2"},
		// Scores of two images, three classes and two pixels: classes are two elements apart,
		// images six.
		{op: "ClassPositions", attrs: ignore, in: values{targets, scores}, want: numbers([]int{2, 2}, 1, 6, 9, 0)},
		{op: "ClassPositions", attrs: perClass, in: values{targets, like(3)}, want: numbers([]int{2, 2}, 1, 3, 2, 0)},
		{op: "ClassPositions", in: values{targets, scores}, fails: "target[3] is -7, want 0 to 2"},
		{op: "ClassPositions", attrs: ignore, in: values{targets, like(2, 2, 2)}, fails: "target[1] is 2, want 0 to 1"},
		{op: "ClassPositions", attrs: ignore, in: values{targets, like(2, 3, 3)}, fails: "inconsistent with targets"},
		{op: "ClassPositions", attrs: perClass, in: values{targets, like(2, 3)}, fails: "inconsistent with targets"},
	}
}

// attentionRows are the operators of attention's gradient.
func attentionRows(t *testing.T) []row {
	x := normal(5, 2, 4, 6)
	swap := optest.Attrs{"perm": []int{0, 2, 1, 3}}
	split := plain(t, "Transpose", 13, swap, reshaped(x, 2, 4, 3, 2))
	few, many := normal(6, 2, 2, 3, 4), normal(7, 2, 6, 3, 4)
	repeated := plain(t, "Expand", 13, nil, reshaped(few, 2, 2, 1, 3, 4), optest.Int64s(2, 2, 3, 3, 4))
	summed := plain(t, "ReduceSum", 13, optest.Attrs{"keepdims": 0}, reshaped(many, 2, 2, 3, 3, 4), optest.Int64s(2))
	hidden := floats([]int{2, 3}, 1, -inf, 2, -inf, -inf, -inf)
	visible := plain(t, "Softmax", 13, nil, floats([]int{1, 3}, 1, -inf, 2))
	visible = plain(t, "Concat", 13, optest.Attrs{"axis": 0}, visible, like(1, 3))
	scores, keys := like(1, 1, 2, 3), like(1, 1, 3, 5)
	mask := floats([]int{2, 3}, 1, 2, 3, 4, 5, 6)
	causal := optest.Attrs{"is_causal": 1}
	at := func(v ...float64) *tensor.Tensor { return floats([]int{1, 1, 2, 3}, v...) }
	return []row{
		{op: "SplitHeads", attrs: factor(3), in: values{x}, want: split},
		{op: "SplitHeads", attrs: factor(3), in: values{split}, want: split},
		{op: "SplitHeads", attrs: factor(4), in: values{x}, fails: "divisible by the number of heads"},
		{op: "JoinHeads", in: values{split, x}, want: x},
		{op: "JoinHeads", in: values{split, split}, want: split},
		{op: "JoinHeads", in: values{x, x}, fails: "want rank 4"},
		{op: "RepeatHeads", in: values{few, many}, want: reshaped(repeated, 2, 6, 3, 4)},
		{op: "RepeatHeads", in: values{few, few}, want: few},
		{op: "RepeatHeads", in: values{few, like(2, 5, 3, 4)}, fails: "5 heads cannot be grouped to 2"},
		{op: "RepeatHeads", in: values{x, many}, fails: "want rank 4"},
		{op: "SumHeads", in: values{many, few}, want: summed},
		{op: "SumHeads", in: values{many, like(2, 4, 3, 4)}, fails: "6 heads cannot be grouped to 4"},
		{op: "VisibleSoftmax", in: values{x}, want: plain(t, "Softmax", 13, optest.Attrs{"axis": -1}, x)},
		{op: "VisibleSoftmax", in: values{hidden}, want: visible},
		{op: "VisibleSoftmax", in: values{floats(nil, 1)}, fails: "want at least 1"},
		{op: "AttentionMask", in: values{scores, keys}, want: scores},
		{op: "AttentionMask", in: values{scores, keys, mask}, want: reshaped(mask, 1, 1, 2, 3)},
		{op: "AttentionMask", in: values{scores, keys, optest.Tensor([]bool{true, false, true}, 1, 3)},
			want: at(0, -inf, 0, 0, -inf, 0)},
		{op: "AttentionMask", attrs: causal, in: values{scores, keys, mask}, want: at(1, -inf, -inf, 4, 5, -inf)},
		{op: "AttentionMask", attrs: causal, in: values{scores, like(1, 1, 2, 5)}, want: at(0, 0, -inf, 0, 0, 0)},
		{op: "AttentionMask", attrs: optest.Attrs{"left_window_size": 0}, in: values{scores, keys},
			want: at(0, 0, 0, -inf, 0, 0)},
		{op: "AttentionMask", in: values{scores, keys, nil, optest.Int64s(2)}, want: at(0, 0, -inf, 0, 0, -inf)},
		{op: "AttentionMask", in: values{scores, keys, nil, optest.Int64s(2, 1)},
			fails: "nonpad_kv_seqlen has 2 elements, want 1"},
		{op: "AttentionMask", in: values{scores, like(1, 1, 4, 5)}, fails: "at most as many keys as scores per row"},
		{op: "AttentionMaskIndices", in: values{mask, like(1, 2, 2, 3)},
			want: numbers([]int{1, 2, 2, 3}, 1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6)},
		{op: "AttentionMaskIndices", attrs: optest.Attrs{"pad_mask": 1}, in: values{like(2, 2), scores},
			want: numbers([]int{1, 1, 2, 3}, 1, 2, 0, 3, 4, 0)},
		{op: "AttentionMaskIndices", in: values{mask, like(2, 3)}, fails: "want rank 4"},
	}
}

// matrixRows are the operators of Det's gradient.
func matrixRows(t *testing.T) []row {
	m := normal(8, 2, 3, 3)
	inverse := plain(t, "MatMul", 13, nil, m, plain(t, "Transpose", 13, optest.Attrs{"perm": []int{0, 2, 1}},
		inverted(t, m)))
	identity := floats([]int{2, 3, 3}, 1, 0, 0, 0, 1, 0, 0, 0, 1, 1, 0, 0, 0, 1, 0, 0, 0, 1)
	if err := tensor.AllClose(inverse, identity, 1e-9, 1e-9); err != nil {
		t.Errorf("InverseTransposed: the product of X and the inverse: %v", err)
	}
	det := reshaped(plain(t, "Det", 22, nil, m), 2, 1, 1)
	return []row{
		{op: "InverseTransposed", in: values{floats([]int{2, 2}, 1, 2, 3, 4)},
			want: floats([]int{2, 2}, -2, 1.5, 1, -0.5)},
		{op: "InverseTransposed", in: values{like(0, 3, 3)}, want: like(0, 3, 3)},
		{op: "InverseTransposed", in: values{like(2, 3)}, fails: "want square matrices"},
		{op: "Cofactors", in: values{m}, want: plain(t, "Mul", 13, nil, det, inverted(t, m))},
		{op: "Cofactors", in: values{floats([]int{2, 2}, 1, 2, 2, 4)}, want: floats([]int{2, 2}, 4, -2, -2, 1)},
		{op: "Cofactors", in: values{floats([]int{1, 1}, 0)}, want: floats([]int{1, 1}, 1)},
		{op: "Cofactors", in: values{like(3)}, fails: "want square matrices"},
	}
}

func inverted(t *testing.T, m *tensor.Tensor) *tensor.Tensor {
	t.Helper()
	return plain(t, "onward.InverseTransposed", 1, nil, m)
}

func TestShapes(t *testing.T)    { check(t, shapeRows(t)) }
func TestIndices(t *testing.T)   { check(t, indexRows()) }
func TestAttention(t *testing.T) { check(t, attentionRows(t)) }
func TestMatrices(t *testing.T)  { check(t, matrixRows(t)) }

// transposed are the operators that adjoint_test.go tests.
var transposed = []string{"ConvInputGradient", "ConvWeightGradient", "AveragePoolGradient", "GridSampleGrad",
	"GridSampleGradBack"}

// TestEveryOperatorIsTested fails for an operator of the package without a case.
func TestEveryOperatorIsTested(t *testing.T) {
	tested := slices.Clone(transposed)
	for _, r := range slices.Concat(shapeRows(t), indexRows(), attentionRows(t), matrixRows(t)) {
		tested = append(tested, r.op)
	}
	for _, d := range kit.All() {
		if d.Domain == kit.DomainInternal && !slices.Contains(tested, d.Name) {
			t.Errorf("%s has no case", strings.TrimPrefix(kit.QualifiedName(d.Domain, d.Name), "onward."))
		}
	}
}
