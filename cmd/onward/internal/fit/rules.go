package fit

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// rules applies the requirements of the node's operator to its inputs.
func (u *use) rules() {
	name := u.n.OpType
	if u.n.Domain != "" {
		name = u.n.Domain + "." + name
	}
	if r := rules[name]; r != nil {
		r(u)
	}
}

// rules holds the requirements of operators, from their specifications:
// https://onnx.ai/onnx/operators and, for com.microsoft, onnxruntime/docs/ContribOperators.md.
var rules = map[string]func(u *use){
	// Indices.
	"Gather":          func(u *use) { u.index(1, 0, u.attr("axis", 0)) },
	"GatherElements":  func(u *use) { u.index(1, 0, u.attr("axis", 0)) },
	"GatherND":        func(u *use) { u.tuples(1, 0, u.attr("batch_dims", 0), false) },
	"ScatterND":       func(u *use) { u.tuples(1, 0, 0, true) },
	"ScatterElements": scatterElements,
	"Scatter":         scatterElements,
	"TensorScatter": func(u *use) {
		u.room(2, u.dim(0, u.attr("axis", -2), 1)-u.dim(1, u.attr("axis", -2), 0))
	},
	"ArrayFeatureExtractor":            func(u *use) { u.index(1, 0, -1) },
	"ai.onnx.ml.ArrayFeatureExtractor": func(u *use) { u.index(1, 0, -1) },
	"OneHot": func(u *use) {
		depth := u.result(0)
		n, axis := 4, u.attr("axis", -1)
		if axis < 0 {
			axis += len(depth)
		}
		if axis >= 0 && axis < len(depth) && depth[axis] > 0 {
			n = depth[axis]
		}
		if d, ok := u.scalar(1); ok {
			n = int(d)
		}
		u.need(1, exactly(float64(n)))
		u.need(0, between(0, float64(n-1)))
	},
	"NegativeLogLikelihoodLoss": func(u *use) { u.index(1, 0, 1) },
	"SoftmaxCrossEntropyLoss":   func(u *use) { u.index(1, 0, 1) },
	"MaxUnpool":                 maxUnpool,
	"RoiAlign":                  func(u *use) { u.index(2, 0, 0) },
	"MaxRoiPool":                func(u *use) { u.need(1, between(0, 0)) },
	"RotaryEmbedding":           func(u *use) { u.index(3, 1, 0) },
	"SequenceAt":                zero, "SequenceErase": zero,
	"SequenceInsert": func(u *use) { u.need(2, exactly(0)) },

	// Lengths.
	"ReverseSequence": func(u *use) { u.need(1, between(1, float64(u.dim(0, u.attr("time_axis", 0), 1)))) },
	"RNN":             sequenceLengths, "GRU": sequenceLengths, "LSTM": sequenceLengths,

	// Shapes and axes.
	"Reshape":         reshape,
	"Expand":          func(u *use) { u.shapeLike(1, 0, 1) },
	"ConstantOfShape": func(u *use) { u.shapeLike(0, 0, 2) },
	"AffineGrid":      affineGrid,
	"Tile":            tile,
	"Pad":             pad,
	"Slice":           slice,
	"Unsqueeze":       unsqueeze,
	"Squeeze":         squeeze,
	"Split":           split,
	"SplitToSequence": split,
	"Resize":          resize,
	"Col2Im":          col2im,
	"TopK": func(u *use) {
		axis := u.attr("axis", -1)
		u.need(1, exactly(float64(wanted(u.result(0), axis, min(2, u.dim(0, axis, 1))))))
	},
	"CumSum": zero, "CumProd": zero, "Trilu": zero,
	"Range": span,
	"Loop":  func(u *use) { u.need(0, exactly(3)); u.need(1, exactly(1)) },
	"DFT": func(u *use) {
		axis := -2
		if a, ok := u.scalar(2); ok {
			axis = int(a)
		}
		u.need(1, exactly(float64(wanted(u.result(0), axis, u.dim(0, axis, 1)))))
		u.need(2, exactly(float64(axis)))
	},
	"MelWeightMatrix": melWeights,
	"STFT":            stft,

	// Other contents.
	"NonMaxSuppression": func(u *use) { u.need(2, exactly(3)) },
	"BitShift":          func(u *use) { u.need(1, between(0, 7)) },
	"Div":               divisor, "Mod": divisor,
	"Pow":                func(u *use) { u.need(1, between(0, 3)) },
	"Dropout":            func(u *use) { u.need(1, between(0, 0.5)); u.need(2, exactly(0)) },
	"BatchNormalization": func(u *use) { u.need(4, between(0.5, 1.5)) },
	"ImageDecoder":       func(u *use) { u.need(0, need{image: true}) },
	"Cast":               cast,
	"Sub": func(u *use) { // 1 − mask
		if c, ok := u.scalar(0); ok && c == 1 {
			u.need(1, need{mask: true})
		}
	},
	"Attention": func(u *use) {
		u.mask(3)
		u.need(6, between(1, float64(u.dim(1, -2, 1))))
	},

	// ai.onnx.ml.
	"ai.onnx.ml.CategoryMapper": words("cats_strings"),
	"ai.onnx.ml.LabelEncoder":   words("keys_strings", "classes_strings"),
	"ai.onnx.ml.OneHotEncoder":  words("cats_strings"),
	"ai.onnx.ml.DictVectorizer": words("string_vocabulary"),
	"TfIdfVectorizer":           words("pool_strings"),
	"com.microsoft.Tokenizer":   func(u *use) { u.need(0, need{words: []string{"a few words", "to split"}}) },

	// com.microsoft.
	"com.microsoft.EmbedLayerNormalization":  embed,
	"com.microsoft.QEmbedLayerNormalization": embed,
	"com.microsoft.Attention":                func(u *use) { u.maskIndex(3, u.dim(0, 0, 1), u.dim(0, 1, 1)) },
	"com.microsoft.QAttention":               func(u *use) { u.maskIndex(5, u.dim(0, 0, 1), u.dim(0, 1, 1)) },
	"com.microsoft.MultiHeadAttention": func(u *use) {
		u.maskIndex(4, u.dim(0, 0, 1), max(u.dim(1, 1, 1), u.dim(5, 2, 0)+u.dim(1, 1, 1)))
	},
	"com.microsoft.DecoderMaskedMultiHeadAttention": func(u *use) {
		u.maskIndex(3, u.dim(0, 0, 1), u.dim(5, 2, 1))
		u.need(7, between(0, float64(u.dim(5, 2, 1)-1)))
		u.need(9, between(0, 0))
	},
	"com.microsoft.GroupQueryAttention": groupQuery,
	"com.microsoft.SparseAttention": func(u *use) {
		total := u.dim(3, 2, 1)
		u.need(7, exactly(float64(total)))
		u.need(8, exactly(float64(total)))
	},
	"com.microsoft.RotaryEmbedding": func(u *use) {
		room := u.dim(2, 0, 1)
		if u.length(1) == 1 && len(u.shape(1)) == 1 { // an offset for the whole sequence
			room -= u.dim(0, -2, 1) - 1
		}
		u.room(1, room-1)
	},
	"com.microsoft.PackedAttention":          func(u *use) { u.packed(3, 4) },
	"com.microsoft.PackedMultiHeadAttention": func(u *use) { u.packed(4, 5) },
	"com.microsoft.GatherBlockQuantized":     func(u *use) { u.index(1, 0, u.attr("gather_axis", 0)) },
	"com.microsoft.GatherND":                 func(u *use) { u.tuples(1, 0, 0, false) },
	"com.microsoft.WordConvEmbedding":        func(u *use) { u.index(0, 3, 0) },
	"com.microsoft.CropAndResize": func(u *use) {
		u.index(2, 0, 0)
		u.need(3, exactly(2, 2))
	},
	"com.microsoft.ExpandDims":                  zero,
	"com.microsoft.Range":                       span,
	"com.microsoft.BiasDropout":                 func(u *use) { u.need(3, between(0, 0.5)); u.need(4, exactly(0)) },
	"com.microsoft.SoftmaxCrossEntropyLossGrad": func(u *use) { u.index(2, 1, 1) },
}

func init() {
	for _, op := range []string{"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1",
		"ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"} {
		rules[op] = reduce
	}
}

// zero requires the axis, position or offset 0 in input 1.
func zero(u *use) { u.need(1, exactly(0)) }

// span requires the numbers from 0 to the size of the result.
func span(u *use) {
	u.need(0, exactly(0))
	u.need(1, need{exact: []float64{float64(wanted(u.result(0), 0, freeSize))}, sizes: true})
	u.need(2, exactly(1))
}

// words requires strings of the lists in the attributes.
func words(attrs ...string) func(*use) {
	return func(u *use) {
		var all []string
		for _, a := range attrs {
			all = append(all, attr(u.n, a, []string(nil))...)
		}
		u.need(0, need{words: all})
	}
}

// index requires indices of input data along an axis in input k.
func (u *use) index(k, data, axis int) { u.need(k, between(0, float64(u.dim(data, axis, 1)-1))) }

// maxContents is the largest number of elements of an input whose contents are fixed.
const maxContents = 1 << 16

// count returns the number of elements of input k, 0 if it is unknown, and at most maxContents.
func (u *use) count(k int) int {
	n := 1
	for _, d := range u.shape(k) {
		if d <= 0 {
			return 0
		}
		if n = min(n, maxContents) * min(d, maxContents); n > maxContents {
			n = maxContents
		}
	}
	if u.shape(k) == nil {
		return 0
	}
	return n
}

// room requires values from 0 to most.
func (u *use) room(k, most int) { u.need(k, between(0, float64(max(most, 0)))) }

// tuples requires index tuples for the dimensions of data from axis first on.
func (u *use) tuples(k, data, first int, distinct bool) {
	var limits []int
	for i := range min(u.dim(k, -1, 1), tensor.MaxRank) {
		limits = append(limits, u.dim(data, first+i, 1))
	}
	if len(limits) > 0 {
		u.need(k, need{limits: limits, distinct: distinct})
	}
}

func scatterElements(u *use) {
	axis := u.attr("axis", 0)
	if axis < 0 {
		axis += len(u.shape(0))
	}
	u.need(1, need{lo: 0, hi: float64(u.dim(0, axis, 1) - 1), bounded: true, distinct: true, axis: axis})
}

func maxUnpool(u *use) {
	n := 1
	strides := attr(u.n, "strides", []int64(nil))
	for i, d := range u.shape(0) {
		if i >= 2 && i-2 < len(strides) {
			d *= int(strides[i-2])
		}
		n *= max(d, 1)
	}
	u.need(1, need{hi: float64(n - 1), bounded: true, distinct: true, axis: -1})
	u.shapeLike(2, 0, 0)
}

func sequenceLengths(u *use) {
	axis := 0
	if u.attr("layout", 0) == 1 {
		axis = 1
	}
	u.need(4, between(1, float64(u.dim(0, axis, 1))))
}

func stft(u *use) {
	signal := u.dim(0, 1, 1)
	length := max(signal/4, 1)
	out := u.result(0)
	if n := wanted(out, 2, -1); n > 0 {
		if length = n; u.attr("onesided", 1) == 1 {
			length = 2 * (n - 1)
		}
	}
	if n := u.dim(2, 0, -1); n > 0 {
		length = n
	}
	step := max(length/2, 1)
	if frames := wanted(out, 1, -1); frames > 1 {
		step = max((signal-length)/(frames-1), 1)
	}
	u.need(1, exactly(float64(step)))
	u.need(3, exactly(float64(length)))
}

func melWeights(u *use) {
	u.need(0, exactly(8))
	u.need(1, exactly(16))
	u.need(2, exactly(8192))
	u.need(3, exactly(0))
	u.need(4, exactly(4096))
}

func divisor(u *use) {
	if u.has(1) && u.g.Value(u.n.In[1]).Type.Elem.IsInteger() {
		u.need(1, between(1, 9))
	}
}

// cast requires numbers in strings that become numbers, and 0 or 1 in integers that become
// conditions.
func cast(u *use) {
	if !u.has(0) || u.n.Out[0] == ir.None {
		return
	}
	from, to := u.g.Value(u.n.In[0]).Type.Elem, u.g.Value(u.n.Out[0]).Type.Elem
	switch {
	case from == tensor.TypeString:
		u.need(0, need{words: []string{"1", "2", "3"}})
	case to == tensor.TypeBool && from.IsInteger():
		u.need(0, need{mask: true})
	}
}
