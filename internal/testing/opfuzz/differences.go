package opfuzz

import (
	"math"
	"slices"

	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// Difference is a condition under which ONNX Runtime 1.30 computes something else
// than our engines, and why ours stay as they are.
type Difference struct {
	Ops  []string // with their domains
	When func(*Case) bool
	What string // the condition in words
	Who  string // who follows the specification
	Why  string
}

const (
	ours    = "ours"
	neither = "open" // the specification leaves it open
)

var reductions = []string{"ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare"}

// Differences are all that the differential tests have found.
var Differences = []Difference{
	{reductions, empty, "an empty input", ours, "the reduced dimension goes or becomes 1, and a sum over nothing is 0, a mean NaN; ONNX Runtime keeps the dimension, or gives 0"},
	{[]string{"ArgMax", "ArgMin"}, empty, "an empty dimension is searched", neither, "there is no largest element; ours keep the reduced shape"},
	{[]string{"Attention"}, func(c *Case) bool { return len(c.Out) > 3 && c.Out[3] }, "qk_matmul_output under a mask", ours, "masked scores are -∞; ONNX Runtime has the lowest finite number"},
	{[]string{"Cast", "CastLike"}, castUndefined, "NaN, infinities or numbers out of range become integers, or negative ones float8e8m0", neither, "the specification calls the result undefined"},
	{[]string{"Cast", "CastLike"}, castsFractions, "fractions become int4 or uint4", neither, "ours cut them off, as for wider integers; ONNX Runtime rounds them"},
	{[]string{"Cast", "CastLike"}, func(c *Case) bool { return isText(c) }, "numbers to text or text to numbers", neither, "the specification asks for plain and scientific notation without fixing the digits"},
	{[]string{"Clip"}, nonFinite, "an infinite input and no bound", ours, "the operator's function body leaves the input alone where a bound is absent; ONNX Runtime limits it to the largest finite number"},
	{[]string{"ConvTranspose"}, func(c *Case) bool { return c.Text("auto_pad", "NOTSET") != "NOTSET" }, "auto_pad with a stride above the window", ours, "the output is input · stride; ONNX Runtime gives a smaller one where the padding would be negative"},
	{[]string{"DynamicQuantizeLinear"}, empty, "an empty input", neither, "there is no range to quantize"},
	{[]string{"Gelu", "com.microsoft.Gelu", "com.microsoft.FastGelu", "com.microsoft.QuickGelu", "Shrink", "Celu", "Mish"}, has(tensor.TypeFloat64), "double", ours, "ONNX Runtime computes with float32 constants or in float32"},
	{[]string{"Gather"}, has(tensor.TypeString), "strings, more than one for an index", ours, "ONNX Runtime copies the first of them alone"},
	{[]string{"MaxUnpool"}, func(c *Case) bool { return len(c.In) > 2 }, "output_shape", ours, "indices are those of the pooled image, as in the suite; ONNX Runtime takes them for places of the larger output"},
	{[]string{"Pad"}, func(c *Case) bool { return c.Text("mode", "") == "wrap" }, "wrap by more than the size", ours, "the elements go round again; ONNX Runtime reads others"},
	{[]string{"QuantizeLinear"}, nonFinite, "infinities", ours, "the result saturates; ONNX Runtime converts infinite float16 to 0"},
	{append([]string{"ArgMax", "ArgMin"}, reductions...), func(c *Case) bool { return c.Int("keepdims", 1)&^1 != 0 }, "keepdims is neither 0 nor 1", neither, "ours keep the dimension"},
	{[]string{"ReduceL2", "ReduceSumSquare", "ReduceLogSumExp", "ReduceL1", "ReduceSum", "ReduceMean", "ReduceLogSum", "ReduceProd"}, huge, "numbers whose squares or sums leave float32", neither, "ours sum in float64"},
	{[]string{"RNN", "GRU", "LSTM"}, func(c *Case) bool { return missesParameter(c, "thresholdedrelu") }, "ThresholdedRelu without an activation_alpha", ours, "the default is that of the operator, 1; ONNX Runtime takes 0"},
	{[]string{"RNN", "GRU", "LSTM"}, func(c *Case) bool { return missesParameter(c, "affine", "scaledtanh") }, "Affine or ScaledTanh without activation_alpha or activation_beta", neither,
		"there is no operator to take a default from; ours scale by 1 and shift by 0, ONNX Runtime takes 0"},
	{[]string{"RNN"}, func(c *Case) bool { return missesParameter(c, "leakyrelu", "hardsigmoid", "elu") }, "LeakyRelu, HardSigmoid or Elu without activation_alpha or activation_beta", ours,
		"the defaults are those of the operators; ONNX Runtime takes 0, or reads past the list"},
	{[]string{"Slice"}, endlessBackwards, "a negative step, and an end of 2³¹ - 1", ours, "the end is limited to the last element; ONNX Runtime takes it for the one before the first"},
	{[]string{"com.microsoft.QLinearSoftmax"}, wraps, "probabilities above the range of the output", ours, "the result saturates; ONNX Runtime's wraps"},
	{[]string{"Hardmax", "ArgMax", "ArgMin", "TopK", "ReduceMax", "ReduceMin", "Max", "Min", "Unique"}, nonFinite, "NaN among the elements", neither, "NaN has no place in an order; ours take the first as the largest, as NumPy does"},
	{[]string{"GlobalMaxPool", "MaxPool"}, nonFinite, "NaN in the window", neither, "ours give NaN, ONNX Runtime the largest number of the others"},
	{[]string{"LRN"}, nonFinite, "NaN or infinities", ours, "ONNX Runtime's running sums carry them into channels whose window is free of them"},
	{[]string{"GroupNormalization", "com.microsoft.GroupNorm"}, closeGroups, "elements of a group that are close to each other, or double", neither, "ONNX Runtime takes E(x²) - E(x)², which cancels, in float32; ours take the mean of the squared differences, of double in double"},
	{[]string{"MeanVarianceNormalization"}, constantGroup, "a variance of 0, or squares that leave float32", ours, "the function body adds 1e-9 to the deviation: the result is 0, ONNX Runtime's NaN; ours sum in float64"},
	{[]string{"NonZero"}, func(c *Case) bool { return c.Tensor(0).Rank() == 0 }, "a scalar", ours, "its output has 0 rows, the specification says, one for each dimension"},
	{[]string{"OneHot"}, func(c *Case) bool { return c.DType(0).IsFloat() }, "fractional indices", ours, "they are cast to int64 first; ONNX Runtime compares them as they are"},
	{[]string{"Resize"}, func(c *Case) bool {
		return c.Int("antialias", 0) == 1 && (c.DType(0) == tensor.TypeInt8 || c.DType(0) == tensor.TypeInt32 || c.DType(0) == tensor.TypeUint8)
	}, "antialias for integers", ours, "ONNX Runtime cuts off negative results and the fraction"},
	{[]string{"Resize"}, func(c *Case) bool { return c.Text("coordinate_transformation_mode", "") == "align_corners" }, "align_corners", ours, "the last pixels are those of the scaled size, as in the suite; ONNX Runtime takes the rounded size"},
	{[]string{"ai.onnx.ml.LinearClassifier", "ai.onnx.ml.LinearRegressor", "ai.onnx.ml.SVMClassifier", "ai.onnx.ml.SVMRegressor", "ai.onnx.ml.TreeEnsembleClassifier", "ai.onnx.ml.TreeEnsembleRegressor"},
		func(c *Case) bool { return c.Text("post_transform", "") == "PROBIT" }, "PROBIT", ours, "ONNX Runtime approximates the inverse of the error function to three digits"},
	{[]string{"ai.onnx.ml.TreeEnsembleRegressor"}, func(c *Case) bool { return c.Attr("base_values") != nil && c.Int("n_targets", 1) > 1 }, "base_values and a target without votes", ours,
		"they are added after the votes are joined, the specification says; ONNX Runtime gives 0"},
	{[]string{"com.microsoft.Inverse"}, nearSingular, "matrices near singular ones", neither, "the error grows with the condition; the orders of elimination differ"},
	{[]string{"Det"}, nearSingular, "matrices near singular ones", neither, "the error grows with the condition; the orders of elimination differ"},
	{[]string{"com.microsoft.MatMulBnb4"}, func(c *Case) bool { return c.Int("transB", 1) == 0 }, "transB = 0", ours, "ONNX Runtime writes only the first N elements of each row of K"},
	{[]string{"com.microsoft.MaxpoolWithMask"}, func(c *Case) bool { return !slices.Equal(c.Tensor(0).Shape(), c.Tensor(1).Shape()) }, "a mask with other channels than the input", neither, "ours repeat the mask for each image, ONNX Runtime over all planes"},
	{[]string{"com.microsoft.MoE"}, has(tensor.TypeFloat16), "float16", ours, "ONNX Runtime's float16 results are not those of the same numbers in float32"},
	{[]string{"com.microsoft.MultiHeadAttention", "com.microsoft.Attention", "com.microsoft.DecoderMaskedMultiHeadAttention", "com.microsoft.GroupQueryAttention"}, func(c *Case) bool {
		return slices.Contains(c.Out, false) || len(c.Out) < 2
	}, "a past without all present outputs", ours, "ONNX Runtime leaves the past out then"},
	{[]string{"com.microsoft.MultiHeadAttention"}, func(c *Case) bool { return c.Tensor(8) != nil && c.Tensor(9) == nil }, "past_sequence_length without cache_indirection", ours,
		"the tokens of the buffer behind past_sequence_length are no past; ONNX Runtime 1.30 attends to the whole buffer, 1.31 as ours"},
	{[]string{"com.microsoft.GroupQueryAttention"}, func(c *Case) bool { return c.Int("sliding_window_cache", 0) == 1 }, "sliding_window_cache with fewer tokens than the cache holds", neither, "the rows behind the tokens are unspecified; ours are 0, ONNX Runtime's are left over"},
	{[]string{"com.microsoft.RotaryEmbedding"}, func(c *Case) bool { return c.Int("rotary_embedding_dim", 0) > 0 }, "rotary_embedding_dim with caches of half the head's size", neither, "ours take the first columns of the caches, ONNX Runtime other ones"},
	{[]string{"com.microsoft.Tokenizer"}, empty, "no strings", neither, "ours keep the rank of the output"},
	{[]string{"com.microsoft.WordConvEmbedding"}, func(c *Case) bool { return leadingZero(c.Tensor(0)) }, "words that begin with character 0", ours, "a word of no characters is all 0; ONNX Runtime leaves its output unset"},
}

func has(d tensor.DType) func(*Case) bool {
	return func(c *Case) bool {
		for i := range c.In {
			if c.DType(i) == d {
				return true
			}
		}
		return false
	}
}

func empty(c *Case) bool {
	for i := range c.In {
		if x := c.Tensor(i); x != nil && x.Len() == 0 {
			return true
		}
	}
	return false
}

func huge(c *Case) bool {
	f, err := Floats(c.Tensor(0))
	return err == nil && slices.ContainsFunc(f, func(v float64) bool { return !(math.Abs(v) < 1e15) })
}

func nonFinite(c *Case) bool {
	for i := range c.In {
		if x := c.Tensor(i); x != nil && x.DType().IsFloat() {
			f, err := Floats(x)
			if err == nil && slices.ContainsFunc(f, func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }) {
				return true
			}
		}
	}
	return false
}

// castTarget is the type that Cast or CastLike converts to.
func castTarget(c *Case) tensor.DType {
	if a := c.Attr("to"); a != nil && a.Type == onnx.AttrInt {
		return tensor.DType(a.I)
	}
	return c.DType(1)
}

func castUndefined(c *Case) bool {
	to := castTarget(c)
	if to == tensor.TypeFloat8E8M0 {
		f, err := Floats(c.Tensor(0))
		return err == nil && slices.ContainsFunc(f, func(v float64) bool { return !(v > 0) }) // it has no sign and no 0
	}
	if !to.Valid() || to.IsFloat() || !c.DType(0).IsFloat() {
		return false
	}
	f, err := Floats(c.Tensor(0))
	lo, hi := intRange(to)
	return err == nil && slices.ContainsFunc(f, func(v float64) bool { return !(v >= lo && v <= hi) })
}

func castsFractions(c *Case) bool {
	to := castTarget(c)
	if to != tensor.TypeInt4 && to != tensor.TypeUint4 || !c.DType(0).IsFloat() {
		return false
	}
	f, err := Floats(c.Tensor(0))
	return err == nil && slices.ContainsFunc(f, func(v float64) bool { return v != math.Trunc(v) })
}

func isText(c *Case) bool {
	return c.DType(0) == tensor.TypeString || castTarget(c) == tensor.TypeString
}

func leadingZero(t *tensor.Tensor) bool {
	n := t.Dim(t.Rank() - 1)
	for i := 0; i < t.Len(); i += max(n, 1) {
		if tensor.Of[int32](t)[i] == 0 {
			return true
		}
	}
	return false
}

// Explained reports whether a difference in the results of a case is a known one.
func Explained(c *Case) bool {
	for _, d := range Differences {
		if slices.Contains(d.Ops, c.Name()) && (d.When == nil || d.When(c)) {
			return true
		}
	}
	return false
}

// crashOnEmpty are operators of ONNX Runtime that end the process on empty inputs:
// they divide by a size of zero, or index what is not there.
var crashOnEmpty = words(`TopK Unique`)

// CrashesORT reports whether ONNX Runtime may crash on a case.
func CrashesORT(c *Case) bool {
	if c.Name() == "BatchNormalization" && c.Int("training_mode", 0) == 1 && (len(c.Out) < 3 || slices.Contains(c.Out, false)) {
		return true // it writes the statistics even if the node leaves them out
	}
	if c.Name() == "com.microsoft.QLinearWhere" && slices.Contains(c.Constant, true) {
		return true // it prepares tables when some of the scales are constant, and takes the others for it
	}
	for i := range c.In {
		if x := c.Tensor(i); x != nil && x.Len() == 0 && x.Rank() > 1 {
			// Of the others, attention, normalization and pools do.
			if crashOnEmpty[c.Name()] || !exact[c.Name()] && !slices.Contains(reductions, c.Name()) {
				return true
			}
		}
	}
	return false
}
