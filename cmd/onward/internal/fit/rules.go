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

// rules holds the requirements of operators, from their specifications: https://onnx.ai/onnx/operators
// and, for com.microsoft, onnxruntime/docs/ContribOperators.md.
var rules = map[string]func(u *use){
	// Indices.
	"Gather":                           func(u *use) { u.index(1, 0, u.attr("axis", 0)) },
	"GatherElements":                   func(u *use) { u.index(1, 0, u.attr("axis", 0)) },
	"GatherND":                         func(u *use) { u.tuples(1, 0, u.attr("batch_dims", 0), false) },
	"ScatterND":                        func(u *use) { u.tuples(1, 0, 0, true) },
	"ScatterElements":                  scatterElements,
	"Scatter":                          scatterElements,
	"TensorScatter":                    func(u *use) { u.room(2, u.dim(0, u.attr("axis", -2), 1)-u.dim(1, u.attr("axis", -2), 0)) },
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
	"SequenceAt":                func(u *use) { u.need(1, exactly(0)) },
	"SequenceErase":             func(u *use) { u.need(1, exactly(0)) },
	"SequenceInsert":            func(u *use) { u.need(2, exactly(0)) },

	// Lengths.
	"ReverseSequence": func(u *use) { u.need(1, between(1, float64(u.dim(0, u.attr("time_axis", 0), 1)))) },
	"RNN":             sequenceLengths, "GRU": sequenceLengths, "LSTM": sequenceLengths,

	// Shapes and axes.
	"Reshape":         reshape,
	"Expand":          func(u *use) { u.shapeLike(1, 0, 1) },
	"ConstantOfShape": func(u *use) { u.shapeLike(0, 0, 2) },
	"AffineGrid":      affineGrid,
	"CenterCropPad":   centerCropPad,
	"Tile":            tile,
	"Pad":             pad,
	"Slice":           slice,
	"Unsqueeze":       unsqueeze,
	"Squeeze":         squeeze,
	"Split":           split,
	"SplitToSequence": split,
	"Resize":          resize,
	"Upsample":        func(u *use) { u.need(1, exactly(u.ratios()...)) },
	"Col2Im":          col2im,
	"TopK": func(u *use) {
		axis := u.attr("axis", -1)
		u.need(1, exactly(float64(wanted(u.result(0), axis, min(2, u.dim(0, axis, 1))))))
	},
	"CumSum":  func(u *use) { u.need(1, exactly(0)) },
	"CumProd": func(u *use) { u.need(1, exactly(0)) },
	"Trilu":   func(u *use) { u.need(1, exactly(0)) },
	"Range": func(u *use) {
		u.need(0, exactly(0))
		u.need(1, need{exact: []float64{float64(wanted(u.result(0), 0, freeSize))}, sizes: true})
		u.need(2, exactly(1))
	},
	"Loop": func(u *use) { u.need(0, exactly(3)); u.need(1, exactly(1)) },
	"DFT": func(u *use) {
		axis := -2
		if a, ok := u.scalar(2); ok {
			axis = int(a)
		}
		u.need(1, exactly(float64(wanted(u.result(0), axis, u.dim(0, axis, 1)))))
		u.need(2, exactly(float64(axis)))
	},
	"STFT":       stft,
	"HannWindow": window, "HammingWindow": window, "BlackmanWindow": window,
	"MelWeightMatrix": melWeights,

	// Other contents.
	"NonMaxSuppression": func(u *use) { u.need(2, exactly(3)) },
	"BitShift":          func(u *use) { u.need(1, between(0, 7)) },
	"Div":               divisor, "Mod": divisor,
	"Pow":                func(u *use) { u.need(1, between(0, 3)) },
	"Dropout":            func(u *use) { u.need(1, between(0, 0.5)); u.need(2, exactly(0)) },
	"BatchNormalization": func(u *use) { u.need(4, between(0.5, 1.5)) },
	"ImageDecoder":       func(u *use) { u.need(0, need{picture: true}) },
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
	"ai.onnx.ml.CategoryMapper": func(u *use) { u.need(0, need{words: attr(u.n, "cats_strings", []string(nil))}) },
	"ai.onnx.ml.LabelEncoder": func(u *use) {
		u.need(0, need{words: append(attr(u.n, "keys_strings", []string(nil)), attr(u.n, "classes_strings", []string(nil))...)})
	},
	"ai.onnx.ml.OneHotEncoder":  func(u *use) { u.need(0, need{words: attr(u.n, "cats_strings", []string(nil))}) },
	"ai.onnx.ml.DictVectorizer": func(u *use) { u.need(0, need{words: attr(u.n, "string_vocabulary", []string(nil))}) },
	"TfIdfVectorizer":           func(u *use) { u.need(0, need{words: attr(u.n, "pool_strings", []string(nil))}) },
	"com.microsoft.Tokenizer":   func(u *use) { u.need(0, need{words: []string{"a few words", "to split"}}) },

	// com.microsoft.
	"com.microsoft.EmbedLayerNormalization":  embed,
	"com.microsoft.QEmbedLayerNormalization": embed,
	"com.microsoft.Attention":                func(u *use) { u.maskIndex(3, u.dim(0, 0, 1), u.dim(0, 1, 1)) },
	"com.microsoft.QAttention":               func(u *use) { u.maskIndex(5, u.dim(0, 0, 1), u.dim(0, 1, 1)) },
	"com.microsoft.MultiHeadAttention":       func(u *use) { u.maskIndex(4, u.dim(0, 0, 1), max(u.dim(1, 1, 1), u.dim(5, 2, 0)+u.dim(1, 1, 1))) },
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
	"com.microsoft.ExpandDims": func(u *use) { u.need(1, exactly(0)) },
	"com.microsoft.Range": func(u *use) {
		u.need(0, exactly(0))
		u.need(1, need{exact: []float64{float64(wanted(u.result(0), 0, freeSize))}, sizes: true})
		u.need(2, exactly(1))
	},
	"com.microsoft.BiasDropout":                 func(u *use) { u.need(3, between(0, 0.5)); u.need(4, exactly(0)) },
	"com.microsoft.SoftmaxCrossEntropyLossGrad": func(u *use) { u.index(2, 1, 1) },
}

func init() {
	for _, op := range []string{"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare"} {
		rules[op] = reduce
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

// wanted returns a size of a shape, or other if it is unknown.
func wanted(shape []int, axis, other int) int {
	if axis < 0 {
		axis += len(shape)
	}
	if axis < 0 || axis >= len(shape) || shape[axis] < 0 {
		return other
	}
	return shape[axis]
}

// shapeLike requires the shape of the result in input k: the declared one, else that of input like.
func (u *use) shapeLike(k, like, other int) {
	n := u.count(k)
	out, own := u.result(0), u.shape(like)
	if like == k {
		own = nil
	}
	x := make([]float64, n)
	for i := range x {
		x[i] = float64(wanted(out, i, max(wanted(own, i-n+len(own), other), 0)))
	}
	u.need(k, need{exact: x, sizes: true})
}

// reshape keeps the declared result if it has the right number of elements, and else collects all
// in the first dimension.
func reshape(u *use) {
	n, out, x := u.count(1), u.result(0), []float64{}
	if len(out) == n {
		unknown, size := 0, 1
		for _, d := range out {
			if d < 0 {
				unknown++
			}
			size *= max(d, 1)
			x = append(x, float64(max(d, -1)))
		}
		if total := u.length(0); unknown == 0 && size == total || unknown == 1 && size > 0 && total%size == 0 {
			u.need(1, exactly(x...))
			return
		}
	}
	x = x[:0]
	for i := range n {
		switch own := u.shape(0); {
		case i == 0:
			x = append(x, -1)
		case n == len(own):
			x = append(x, float64(own[i]))
		default:
			x = append(x, 1)
		}
	}
	u.need(1, exactly(x...))
}

func affineGrid(u *use) {
	n, out := u.count(1), u.result(0) // the grid is [N, H, W, 2] or [N, D, H, W, 3]
	x := make([]float64, n)
	for i := range x {
		switch i {
		case 0:
			x[i] = float64(u.dim(0, 0, 1))
		case 1:
			x[i] = 1
		default:
			x[i] = float64(wanted(out, i-1, 4))
		}
	}
	u.need(1, exactly(x...))
}

func centerCropPad(u *use) {
	axes := attr(u.n, "axes", []int64(nil))
	x := make([]float64, u.count(1))
	for i := range x {
		axis := i
		if i < len(axes) {
			axis = int(axes[i])
		}
		x[i] = float64(wanted(u.result(0), axis, u.dim(0, axis, 1)))
	}
	u.need(1, exactly(x...))
}

func tile(u *use) {
	x := make([]float64, u.count(1))
	for i := range x {
		own := u.dim(0, i, 0)
		if x[i] = 1; own > 0 {
			x[i] = float64(wanted(u.result(0), i, own) / own)
		}
	}
	u.need(1, exactly(x...))
	if u.n.Opset < 6 { // tiles, axis
		u.need(2, exactly(0))
	}
}

// pad requires the padding that makes the declared result, at the end of the axes; else none.
func pad(u *use) {
	n := u.count(1)
	axes := u.numbers(3)
	if axes == nil && u.has(3) {
		for i := range u.count(3) {
			axes = append(axes, float64(i))
		}
	}
	u.need(3, exactly(axes...))
	x := make([]float64, n)
	for i := range n / 2 {
		axis := i
		if i < len(axes) {
			axis = int(axes[i])
		}
		own := u.dim(0, axis, 0)
		x[n/2+i] = float64(wanted(u.result(0), axis, own) - own)
	}
	u.need(1, exactly(x...))
}

// slice requires whole axes, or as much of them as the declared result has.
func slice(u *use) {
	n := u.count(1)
	axes := u.numbers(3)
	if axes == nil {
		for i := range n {
			axes = append(axes, float64(i))
		}
	}
	u.need(3, exactly(axes...))
	ends := make([]float64, n)
	for i := range min(n, len(axes)) {
		axis := int(axes[i])
		ends[i] = float64(wanted(u.result(0), axis, u.dim(0, axis, 1)))
	}
	u.need(1, exactly(make([]float64, n)...))
	u.need(2, exactly(ends...))
	u.need(4, exactly(1))
}

// unsqueeze requires the axes at which the declared result has its ones, from the front.
func unsqueeze(u *use) {
	out, own := u.result(0), u.shape(0)
	var x []float64
	for i, k := 0, 0; i < len(out) && len(x) < u.count(1); i++ {
		left := u.count(1) - len(x)
		if out[i] == 1 && (k >= len(own) || own[k] != 1 || len(out)-i == left) {
			x = append(x, float64(i))
		} else {
			k++
		}
	}
	for i := len(x); i < u.count(1); i++ {
		x = append(x, float64(i))
	}
	u.need(1, exactly(x...))
}

func squeeze(u *use) {
	var x []float64
	for i, d := range u.shape(0) {
		if d == 1 {
			x = append(x, float64(i))
		}
	}
	if n := u.dim(1, 0, 1); len(x) > n {
		x = x[:n]
	}
	if len(x) > 0 {
		u.need(1, exactly(x...))
	}
}

func reduce(u *use) {
	x := make([]float64, u.count(1))
	out, own := u.result(0), u.shape(0)
	var at []float64 // axes on which the declared result is 1
	for i := range own {
		if len(out) == len(own) && out[i] == 1 && own[i] != 1 {
			at = append(at, float64(i))
		}
	}
	for i := range x {
		x[i] = float64(i)
	}
	if len(at) == len(x) {
		x = at
	}
	u.need(1, exactly(x...))
}

func split(u *use) {
	axis := u.attr("axis", 0)
	total, n := u.dim(0, axis, 1), max(u.count(1), 1)
	if len(u.shape(1)) == 0 { // SplitToSequence: the size of each part
		u.need(1, exactly(1))
		return
	}
	x := make([]float64, n)
	for i := range x {
		x[i] = float64(total*(i+1)/n - total*i/n)
	}
	for i := range x { // the declared sizes, if they add up
		if len(u.n.Out) != n {
			break
		}
		x[i] = float64(wanted(u.result(i), axis, int(x[i])))
	}
	u.need(1, exactly(x...))
}

// ratios returns the sizes of the declared result relative to those of input 0, and 2 for others on
// the last two axes.
func (u *use) ratios() []float64 {
	own, out := u.shape(0), u.result(0)
	x := make([]float64, len(own))
	for i, d := range own {
		x[i] = 1
		if i >= 2 {
			x[i] = 2
		}
		if n := wanted(out, i, -1); n >= 0 && d > 0 {
			x[i] = float64(n) / float64(d)
		}
	}
	return x
}

func resize(u *use) {
	all := u.ratios()
	axes := attr(u.n, "axes", []int64(nil))
	if axes == nil {
		for i := range all {
			axes = append(axes, int64(i))
		}
	}
	var scales, sizes, roi []float64
	for _, a := range axes {
		if a < 0 {
			a += int64(len(all))
		}
		if a < 0 || a >= int64(len(all)) {
			return
		}
		scales = append(scales, all[a])
		sizes = append(sizes, float64(int(all[a]*float64(u.dim(0, int(a), 1))+0.5)))
		roi = append(roi, 0)
	}
	for range axes {
		roi = append(roi, 1)
	}
	u.need(1, exactly(roi...))
	u.need(2, exactly(scales...))
	u.need(3, exactly(sizes...))
}

func col2im(u *use) {
	spatial := u.count(1)
	image, block := make([]float64, spatial), make([]float64, spatial)
	dilations, strides, pads := attr(u.n, "dilations", []int64(nil)), attr(u.n, "strides", []int64(nil)), attr(u.n, "pads", []int64(nil))
	columns := u.dim(0, 2, 1)
	for i := range image {
		image[i], block[i] = float64(wanted(u.result(0), 2+i, columns)), 1
	}
	// The block is the one with as many positions as there are columns, by its size on each axis.
	at := func(list []int64, i int, other int64) int {
		if i < len(list) {
			other = list[i]
		}
		return int(other)
	}
	rows, channels := u.dim(0, 1, 1), max(wanted(u.result(0), 1, 1), 1)
	for code := range 1 << (3 * min(spatial, 4)) {
		positions, size := 1, 1
		for i := range block {
			b := code>>(3*i)&7 + 1
			block[i] = float64(b)
			size *= b
			span := int(image[i]) + at(pads, i, 0) + at(pads, i+spatial, 0) - at(dilations, i, 1)*(b-1) - 1
			if span < 0 {
				positions = 0
				break
			}
			positions *= span/max(at(strides, i, 1), 1) + 1
		}
		if positions == columns && size*channels == rows {
			break
		}
	}
	u.need(1, exactly(image...))
	u.need(2, exactly(block...))
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

func window(u *use) { u.need(0, exactly(float64(wanted(u.result(0), 0, 16)))) }

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

// mask requires ones for the first positions if input k is boolean or an integer.
func (u *use) mask(k int) {
	if u.has(k) {
		if t := u.g.Value(u.n.In[k]).Type.Elem; t == tensor.TypeBool || t.IsInteger() {
			u.need(k, need{mask: true})
		}
	}
}

// maskIndex is mask for the forms of com.microsoft.Attention: a mask, the length of each row, or
// the end and the start of each row.
func (u *use) maskIndex(k, batch, length int) {
	switch s := u.shape(k); {
	case len(s) != 1:
		u.mask(k)
	case s[0] == batch:
		u.need(k, between(1, float64(length)))
	case s[0] == 2*batch:
		if 2*batch > maxContents {
			return
		}
		x := make([]float64, 2*batch)
		for i := range batch {
			x[i] = float64(length)
		}
		u.need(k, exactly(x...))
	default: // lengths, and offsets of queries and keys
		x := make([]float64, min(max(s[0], 0), maxContents))
		for i := range x {
			switch {
			case i < batch:
				x[i] = float64(length)
			case i <= 2*batch:
				x[i] = float64((i - batch) * length)
			default:
				x[i] = float64((i - 2*batch - 1) * length)
			}
		}
		u.need(k, exactly(x...))
	}
}

func embed(u *use) {
	table := 2
	position, mask, ids := 7, 8, 0
	if u.n.OpType == "EmbedLayerNormalization" {
		mask, position = 7, 8
	}
	u.index(ids, table, 0)
	u.index(1, table+2, 0)
	u.mask(mask)
	u.index(position, table+1, 0)
}

func groupQuery(u *use) {
	total := u.dim(0, 1, 1)
	if past := u.dim(3, 2, 0); past > 0 {
		if total = past + total; u.dim(0, 1, 1) > 1 {
			total = max(past, u.dim(0, 1, 1))
		}
	}
	u.need(5, exactly(float64(total-1)))
	u.need(6, exactly(float64(total)))
	u.room(9, u.dim(7, 0, 1)-1)
}

// packed requires the offsets of tokens in a padded batch without padding, and the cumulative lengths.
func (u *use) packed(offsets, cumulative int) {
	batch, length := u.dim(offsets, 0, 1), u.dim(offsets, 1, 1)
	if batch < 0 || length < 0 || batch > maxContents || length > maxContents/max(batch, 1) {
		return
	}
	x := make([]float64, batch*length)
	for i := range x {
		x[i] = float64(i)
	}
	u.need(offsets, exactly(x...))
	y := make([]float64, batch+1)
	for i := range y {
		y[i] = float64(min(i*length, u.dim(0, 0, batch*length)))
	}
	u.need(cumulative, exactly(y...))
}
