package opfuzz

import (
	"iter"
	"math"
	"slices"

	"pgregory.net/rapid"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/testing/ortlib"
	"github.com/onward-ml/onward/tensor"
)

// Difference is a condition under which ONNX Runtime 1.30 computes something else than
// our engines, and why ours stay as they are.
type Difference struct {
	Ops  []string         // with their domains
	When func(*Case) bool // the condition, exactly as What says
	Here func() bool      // whether it occurs on this processor; nil: on every one
	Make func(*Case)      // changes a drawn case so that the condition holds, for conditions that draws hardly meet
	What string
	Who  string // who follows the specification
	Why  string
}

const (
	ours    = "ours"
	neither = "open" // the specification leaves it open
)

var (
	reductions = []string{"ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean",
		"ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare"}
	recurrents = []string{"RNN", "GRU", "LSTM"}
	casts      = []string{"Cast", "CastLike"}
)

// Differences lists the conditions that the differential tests have found.
var Differences = []Difference{
	{
		Ops:  slices.Concat([]string{"ArgMax", "ArgMin"}, reductions),
		When: emptyNegativeAxis,
		What: "an empty input and a negative axis", Who: ours,
		Why: "the dimension is removed or becomes 1; ONNX Runtime does not count negative axes of empty inputs from " +
			"the end and keeps the dimension",
	},
	{
		Ops:  []string{"ReduceMean"},
		When: emptyData,
		What: "an empty input", Who: ours,
		Why: "the mean of no elements is NaN; ONNX Runtime returns 0",
	},
	{
		Ops:  []string{"Attention"},
		When: maskedScores,
		What: "qk_matmul_output after a mask of booleans, is_causal or nonpad_kv_seqlen", Who: ours,
		Why: "masked scores are -∞; ONNX Runtime uses the lowest finite number",
	},
	{
		Ops:  casts,
		When: castOutOfRange,
		What: "NaN, infinities or numbers out of range to integers, or numbers of at most 0 to float8e8m0",
		Who:  neither,
		Why:  "the specification leaves the result undefined",
	},
	{
		Ops:  casts,
		When: castTies,
		What: "numbers between two integers of 4 or 2 bits, at the same distance", Who: ours,
		Why: "ONNX's pages on these types round to the even one, ONNX Runtime to the larger absolute value",
	},
	{
		Ops:  []string{"Clip"},
		When: clipInfinity,
		What: "an infinite element on a side without bound", Who: ours,
		Why: "the operator's function body does not change the input if a bound is absent; ONNX Runtime limits it to " +
			"the largest finite number",
	},
	{
		Ops:  []string{"Clip"},
		When: func(c *Case) bool { return anyOf(1, notNumber)(c) || anyOf(2, notNumber)(c) },
		Make: setBoundNaN,
		What: "a bound of NaN", Who: neither,
		Why: "ours return NaN, like ONNX's reference evaluator and Min(max, Max(input, min)), which the " +
			"specification calls equivalent; ONNX Runtime ignores the bound, like the function body",
	},
	{
		Ops:  []string{"ConvTranspose"},
		When: strideAboveWindow,
		What: "auto_pad with a stride above the window", Who: ours,
		Why: "the output is input · stride; ONNX Runtime returns a smaller one if the padding would be negative",
	},
	{
		Ops:  []string{"DynamicQuantizeLinear"},
		When: emptyData,
		What: "an empty input", Who: neither,
		Why: "there is no range to quantize",
	},
	{
		Ops:  []string{"DynamicQuantizeLinear"},
		When: allZero,
		What: "all elements are 0", Who: neither,
		Why: "the scale that the specification computes is 0; ours is 1/255, ONNX Runtime's 1",
	},
	{
		Ops:  []string{"DFT"},
		When: func(c *Case) bool { return c.DType(0) == tensor.TypeFloat64 && c.Int("inverse", 0) == 1 },
		Make: func(c *Case) { c.set("inverse", int64(1)) },
		What: "inverse of double", Who: ours,
		Why: "ONNX Runtime divides by the length in float32",
	},
	{
		Ops:  []string{"Gelu", "Mish", "Swish", "com.microsoft.Gelu"},
		When: anyOf(0, func(v float64) bool { return math.IsInf(v, -1) }),
		Make: put(math.Inf(-1)),
		What: "-∞", Who: ours,
		Why: "the limit is -0; ONNX Runtime multiplies -∞ by 0",
	},
	{
		Ops:  []string{"Gelu", "com.microsoft.FastGelu", "Shrink"},
		When: dataIs(tensor.TypeFloat64),
		What: "double", Who: ours,
		Why: "ONNX Runtime computes with float32 constants or in float32",
	},
	{
		Ops: []string{"Shrink"},
		When: func(c *Case) bool {
			return c.DType(0).IsInteger() && anyOf(0, func(v float64) bool { return math.Abs(v) > 1<<24 })(c)
		},
		What: "integers above 2²⁴", Who: ours,
		Why: "ONNX Runtime computes in float32",
	},
	{
		Ops:  []string{"Sign"},
		When: func(c *Case) bool { return c.DType(0) == tensor.TypeBFloat16 && anyOf(0, notNumber)(c) },
		Make: put(math.NaN()),
		What: "NaN of bfloat16", Who: neither,
		Why: "ours return NaN, like ONNX Runtime for other types; it returns 0",
	},
	{
		Ops:  []string{"Gather"},
		When: gatherTexts,
		What: "more than one string per index", Who: ours,
		Why: "ONNX Runtime copies only the first of them",
	},
	{
		Ops:  []string{"MaxUnpool"},
		When: func(c *Case) bool { return c.Tensor(2) != nil },
		What: "output_shape", Who: ours,
		Why: "indices are those of the image that the pooling covers, as in the suite's " +
			"test_maxunpool_export_with_output_shape; ONNX Runtime uses them as offsets in the larger output",
	},
	{
		Ops:  []string{"Pad"},
		When: wrapsTwice,
		What: "wrap by more than the size, before the elements", Who: ours,
		Why: "the elements repeat periodically; ONNX Runtime reads other elements",
	},
	{
		Ops:  []string{"QuantizeLinear"},
		When: quantizesLarge,
		What: "in float16, in blocks or to 4 bits, NaN or numbers above 2³¹ scales", Who: ours,
		Why: "large numbers saturate; ONNX Runtime returns the other end of the range, or 0",
	},
	{
		Ops:  []string{"QuantizeLinear"},
		When: shiftsFloat8,
		Make: setFloat8ZeroPoint,
		What: "float8 with a zero point that is not 0", Who: ours,
		Why: "the formula adds the zero point for all types; ONNX Runtime ignores it",
	},
	{
		Ops: slices.Concat([]string{"ArgMax", "ArgMin", "Attention", "RotaryEmbedding", "com.microsoft.RotaryEmbedding",
			"com.microsoft.MRotaryEmbedding", "com.microsoft.GroupQueryAttention",
			"com.microsoft.Attention", "com.microsoft.MultiHeadAttention", "com.microsoft.QAttention"}, reductions),
		When: badFlag,
		Make: setBadFlag,
		What: "keepdims, noop_with_empty_axes, interleaved, is_causal, unidirectional or do_rotary is neither 0 nor 1",
		Who:  neither,
		Why:  "the specification has no other values",
	},
	{
		Ops:  []string{"ReduceL2", "ReduceLogSumExp"},
		When: leavesFloat32,
		What: "a sum of squares or exponentials that exceeds float32", Who: neither,
		Why: "ours sum in float64",
	},
	{
		Ops:  []string{"ReduceL1", "ReduceL2", "ReduceMean", "ReduceProd", "ReduceSum", "ReduceSumSquare"},
		When: leavesIntegers,
		What: "int32 whose sum or product overflows, or int64 whose sum or product exceeds 2⁵³", Who: neither,
		Why: "ours compute with integers, which wrap; ONNX Runtime with floating-point numbers, which round and " +
			"saturate",
	},
	{
		Ops:  []string{"Squeeze"},
		When: emptyAxes,
		What: "axes that are given and empty", Who: ours,
		Why: "ONNX's shape inference and reference evaluator remove no dimension; ONNX Runtime removes all of size " +
			"1, as without axes",
	},
	{
		Ops:  []string{"ReduceLogSumExp"},
		When: func(c *Case) bool { return !c.DType(0).IsFloat() },
		What: "integers", Who: neither,
		Why: "ours truncate the result; ONNX Runtime truncates the logarithm before it adds the largest element",
	},
	{
		Ops:  recurrents,
		When: func(c *Case) bool { return missesParameter(c, "thresholdedrelu") },
		Make: activateBy("ThresholdedRelu"),
		What: "ThresholdedRelu without an activation_alpha", Who: ours,
		Why: "the default is that of the operator, 1; ONNX Runtime uses 0",
	},
	{
		Ops:  recurrents,
		When: func(c *Case) bool { return missesParameter(c, "affine", "scaledtanh") },
		Make: activateBy("ScaledTanh"),
		What: "Affine or ScaledTanh without activation_alpha or activation_beta", Who: neither,
		Why: "no operator defines a default; ours scale by 1 and shift by 0, ONNX Runtime uses 0",
	},
	{
		Ops:  []string{"LSTM"},
		When: func(c *Case) bool { return c.Attr("clip") != nil },
		Make: func(c *Case) { c.set("clip", float32(0.1)) },
		What: "clip", Who: ours,
		Why: "it limits the input of every activation, hence also the cell state at h; ONNX Runtime limits only " +
			"those of the gates",
	},
	{
		Ops:  []string{"Slice"},
		When: endlessBackwards,
		What: "a negative step, and an end of 2³¹ - 1", Who: ours,
		Why: "the end is limited to the last element; ONNX Runtime treats it as the one before the first",
	},
	{
		Ops:  []string{"com.microsoft.QLinearSoftmax"},
		When: oneOutOfRange,
		What: "a scale and zero point of the output that cannot represent 1", Who: ours,
		Why: "the result saturates; ONNX Runtime's wraps",
	},
	{
		Ops:  []string{"Hardmax", "ArgMax", "ArgMin", "TopK", "ReduceMax", "ReduceMin", "Unique"},
		When: anyInput(math.IsNaN),
		Make: put(math.NaN()),
		What: "NaN among the elements", Who: neither,
		Why: "NaN is not ordered; ours treat the first one as the largest, like NumPy",
	},
	{
		Ops:  []string{"GlobalMaxPool", "MaxPool"},
		When: anyOf(0, math.IsNaN),
		Make: put(math.NaN()),
		What: "NaN in the window", Who: neither,
		Why: "ours return NaN, ONNX Runtime the largest of the other numbers",
	},
	{
		Ops:  []string{"MaxPool"},
		When: dilatedSame,
		Make: setDilatedSame,
		What: "auto_pad with dilations", Who: ours,
		Why: "the output is input / stride; ONNX Runtime pads for a window without dilations",
	},
	{
		Ops:  []string{"LRN"},
		When: anyOf(0, notFinite),
		What: "NaN or infinities", Who: ours,
		Why: "ONNX Runtime's running sums propagate them to channels whose windows do not contain them",
	},
	{
		Ops:  []string{"GroupNormalization"},
		When: closeGroups,
		What: "a group whose variance is at most a thousandth of its squared mean plus 1e-5; or double", Who: neither,
		Why: "ONNX Runtime computes E(x²) - E(x)², which cancels, in float32; ours compute the mean of the squared " +
			"differences, of double in double",
	},
	{
		Ops:  []string{"InstanceNormalization"},
		When: closeGroups,
		What: "an instance whose variance is at most a thousandth of its squared mean plus 1e-5", Who: neither,
		Why: "ONNX Runtime adds the mean, divided by the deviation, to the bias, which cancels",
	},
	{
		Ops:  []string{"MeanVarianceNormalization"},
		When: constantGroup,
		What: "a group whose variance is at most a millionth of its squared mean, or whose squares exceed float32",
		Who:  ours,
		Why:  "the function body adds 1e-9 to the deviation: the result is 0, ONNX Runtime's NaN; ours sum in float64",
	},
	{
		Ops:  []string{"NonZero"},
		When: func(c *Case) bool { return c.Tensor(0).Rank() == 0 },
		What: "a scalar", Who: ours,
		Why: "its output has one row per dimension, hence 0 rows",
	},
	{
		Ops:  []string{"OneHot"},
		When: anyOf(0, isFraction),
		What: "fractional indices", Who: ours,
		Why: "they are cast to int64 first; ONNX Runtime compares the fractions",
	},
	{
		Ops:  []string{"Resize"},
		When: nearestTie,
		What: "nearest, and a coordinate closer than 1e-5 to that at which the nearest pixel changes", Who: neither,
		Why: "ours compute coordinates in float64, ONNX Runtime in float32",
	},
	{
		Ops:  []string{"Resize"},
		When: func(c *Case) bool { return c.Int("antialias", 0) == 1 && !c.DType(0).IsFloat() },
		What: "antialias for integers", Who: ours,
		Why: "ONNX Runtime clips negative results and truncates",
	},
	{
		Ops:  []string{"Resize"},
		When: alignsFraction,
		What: "align_corners or tf_crop_and_resize with scales to a fractional size", Who: ours,
		Why: "the last pixels are those of the scaled size, as in the suite; ONNX Runtime uses the rounded size",
	},
	{
		Ops:  []string{"Resize"},
		When: cropsUnscaled,
		Make: setCropsUnscaled,
		What: "tf_crop_and_resize with a roi other than 0 to 1 for an axis whose scale is 1", Who: ours,
		Why: "the axis is cropped, as in ONNX's reference evaluator; ONNX Runtime copies it",
	},
	{
		Ops: []string{"Split"},
		When: func(c *Case) bool {
			return c.Attr("num_outputs") != nil && c.Int("num_outputs", 0) != int64(len(c.Out))
		},
		What: "num_outputs is not the number of outputs", Who: neither,
		Why: "ours use the attribute, ONNX Runtime the number of outputs",
	},
	{
		Ops: []string{"SplitToSequence"},
		When: func(c *Case) bool {
			return c.Int("keepdims", 1) == 0 && c.Tensor(1) != nil && c.Tensor(1).Rank() == 0
		},
		Make: func(c *Case) {
			c.set("keepdims", int64(0))
			c.In = []tensor.Value{c.In[0], tensor.Scalar(int64(1))}
		},
		What: "keepdims = 0 and a scalar split", Who: ours,
		Why: "keepdims is ignored if split is given; ONNX Runtime removes the dimension",
	},
	{
		Ops:  []string{"StringSplit"},
		When: splitsTrailingSpace,
		Make: setTrailingSpace,
		What: "maxsplit without delimiter, and trailing white space", Who: ours,
		Why: "the last substring keeps it, as in Python's split; ONNX Runtime removes it",
	},
	{
		Ops:  []string{"StringSplit"},
		When: splitsNothing,
		Make: setSplitsNothing,
		What: "an empty string and a delimiter", Who: ours,
		Why: "its only substring is empty, as in Python's split; ONNX Runtime returns no substring",
	},
	{
		Ops:  []string{"ai.onnx.ml.TreeEnsembleClassifier"},
		When: votesForBoth,
		Make: setVotesForBoth,
		What: "two labels, and weights for both classes", Who: ours,
		Why: "the label is that of the top class, as the specification says; ONNX Runtime returns 1 if the second " +
			"sum (or the first if it is the only one) is positive, otherwise 0",
	},
	{
		Ops: []string{"ai.onnx.ml.LinearClassifier", "ai.onnx.ml.LinearRegressor", "ai.onnx.ml.SVMClassifier",
			"ai.onnx.ml.SVMRegressor", "ai.onnx.ml.TreeEnsembleClassifier"},
		When: func(c *Case) bool { return c.Text("post_transform", "") == "PROBIT" },
		Make: func(c *Case) { c.set("post_transform", "PROBIT") },
		What: "PROBIT", Who: ours,
		Why: "ONNX Runtime approximates the inverse of the error function to three digits",
	},
	{
		Ops:  []string{"com.microsoft.Inverse"},
		When: nearSingular,
		What: "a determinant below a hundredth of the product of the rows' norms, in float16 a third", Who: neither,
		Why: "the error grows with the condition; the orders of elimination differ",
	},
	{
		Ops:  []string{"com.microsoft.MatMulBnb4"},
		When: func(c *Case) bool { return c.Int("transB", 1) == 0 },
		What: "transB = 0", Who: ours,
		Why: "ONNX Runtime writes only the first N elements of each row of K",
	},
	{
		Ops:  []string{"com.microsoft.NhwcMaxPool"},
		When: strideAboveWindow,
		What: "auto_pad with a stride above the window", Who: ours,
		Why: "the first window begins at the first element, as in MaxPool; ONNX Runtime omits elements if the " +
			"padding would be negative",
	},
	{
		Ops:  []string{"com.microsoft.MaxpoolWithMask"},
		When: otherMask,
		What: "a mask of more than one plane", Who: ours,
		Why: "ONNX Runtime computes the offset of a plane modulo the number of planes, not of elements",
	},
	{
		Ops:  []string{"com.microsoft.MoE"},
		When: dataIs(tensor.TypeFloat16),
		What: "float16", Who: ours,
		Why: "ONNX Runtime's float16 results differ from those of the same numbers in float32",
	},
	{
		Ops:  []string{"com.microsoft.MultiHeadAttention", "com.microsoft.GroupQueryAttention"},
		When: pastWithoutPresent,
		What: "a past without all present outputs", Who: ours,
		Why: "ONNX Runtime ignores the past",
	},
	{
		Ops:  []string{"com.microsoft.MultiHeadAttention"},
		When: func(c *Case) bool { return c.Tensor(8) != nil && c.Tensor(9) == nil },
		What: "past_sequence_length without cache_indirection", Who: ours,
		Why: "tokens of the buffer after past_sequence_length are not part of the past; ONNX Runtime 1.30 attends to " +
			"the whole buffer, 1.31 agrees with ours",
	},
	{
		Ops:  []string{"com.microsoft.MultiHeadAttention"},
		When: unmaskedLast,
		What: "unidirectional with more keys than queries", Who: ours,
		Why: "query i attends to keys up to i; ONNX Runtime does not mask the last query",
	},
	{
		Ops:  []string{"com.microsoft.GroupQueryAttention"},
		When: slidingCacheNotFull,
		What: "sliding_window_cache with fewer tokens, or a smaller window, than the cache has rows", Who: neither,
		Why: "the rows after the tokens are unspecified; ours are 0, ONNX Runtime does not write them",
	},
	{
		Ops:  []string{"com.microsoft.RotaryEmbedding"},
		When: wideRotaryCaches,
		What: "rotary_embedding_dim with caches of more than half of it", Who: neither,
		Why: "ours use the first columns of the caches, ONNX Runtime others",
	},
	{
		Ops: []string{"com.microsoft.DynamicQuantizeLSTM", "com.microsoft.DynamicQuantizeMatMul",
			"com.microsoft.MatMulIntegerToFloat", "com.microsoft.QAttention", "com.microsoft.QGemm",
			"com.microsoft.QLinearConv"},
		When: wideInt8, Here: ortlib.Saturates,
		What: "int8 numbers beyond -64 and 64, on amd64 without VNNI", Who: ours,
		Why: "sums are exact; ONNX Runtime adds two products in 16 bits, with saturation",
	},
	{
		Ops:  []string{"com.microsoft.WordConvEmbedding"},
		When: leadingZero,
		What: "words whose first character is 0", Who: ours,
		Why: "the result of an empty word is 0; ONNX Runtime does not write its output",
	},
}

// Explains reports whether a difference in the results of a case is this one.
func (d *Difference) Explains(c *Case) bool {
	return slices.Contains(d.Ops, c.Name()) && d.When(c) && (d.Here == nil || d.Here())
}

// Explained reports whether a difference in the results of a case is a known one.
func Explained(c *Case) bool {
	return slices.ContainsFunc(Differences, func(d Difference) bool { return d.Explains(c) })
}

// Witnesses yields valid cases of one of the operators for which the condition holds: those
// of a fixed sequence of draws.
func (d *Difference) Witnesses(op string, seeds Seeds) iter.Seq[*Case] {
	all := kit.All()
	i := slices.IndexFunc(all, func(o *kit.Def) bool { return kit.QualifiedName(o.Domain, o.Name) == op })
	return func(yield func(*Case) bool) {
		if i < 0 {
			return
		}
		g := rapid.Custom(func(t *rapid.T) *Case { return Draw(t, all[i], seeds) })
		for n := range 3000 {
			c := g.Example(n)
			if c == nil {
				continue
			}
			if d.Make != nil {
				d.Make(c)
			}
			if CrashesORT(c) || !d.When(c) {
				continue
			}
			if _, err := Run(c, onward.ProviderConfig{Name: "reference"}, 1); err == nil && !yield(c) {
				return
			}
		}
	}
}

// crashOnEmpty are operators of ONNX Runtime that end the process on empty inputs:
// they divide by a size of zero, or index what is not there.
var crashOnEmpty = words(`TopK Unique`)

// CrashesORT reports whether ONNX Runtime may crash or not end on a case.
func CrashesORT(c *Case) bool {
	if c.Name() == "BatchNormalization" && c.Int("training_mode", 0) == 1 &&
		(len(c.Out) < 3 || slices.Contains(c.Out, false)) {
		return true // it writes the statistics even if the node leaves them out
	}
	if c.Name() == "com.microsoft.QLinearWhere" && slices.Contains(c.Constant, true) {
		return true // it prepares tables when some of the scales are constant, and takes the others for it
	}
	if c.Name() == "com.microsoft.MultiHeadAttention" && c.Tensor(8) != nil && pastWithoutPresent(c) {
		return true // it appends to the missing outputs
	}
	if c.Name() == "DFT" && c.Int("inverse", 0) == 1 && c.Int("onesided", 0) == 1 &&
		slices.Contains(c.Tensor(0).Shape(), 1) {
		return true // it does not end if the length is 2·(1−1)
	}
	if a := c.Attr("scale"); a != nil && a.F == 0 && random[c.Name()] {
		return true // std::normal_distribution asserts a standard deviation above 0
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
