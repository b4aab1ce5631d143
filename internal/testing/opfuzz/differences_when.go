package opfuzz

import (
	"math"
	"slices"
	"strings"

	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// numbers returns the elements of input i, nil if it is not a numeric tensor.
func numbers(c *Case, i int) []float64 {
	if x := c.Tensor(i); x != nil {
		if f, err := Floats(x); err == nil {
			return f
		}
	}
	return nil
}

func anyOf(input int, like func(float64) bool) func(*Case) bool {
	return func(c *Case) bool { return slices.ContainsFunc(numbers(c, input), like) }
}

func anyInput(like func(float64) bool) func(*Case) bool {
	return func(c *Case) bool {
		for i := range c.In {
			if slices.ContainsFunc(numbers(c, i), like) {
				return true
			}
		}
		return false
	}
}

func notFinite(v float64) bool  { return v-v != 0 }
func notNumber(v float64) bool  { return v != v }
func isFraction(v float64) bool { return v != math.Trunc(v) }

// dataIs finds a data input of a type.
func dataIs(d tensor.DType) func(*Case) bool { return func(c *Case) bool { return c.DType(0) == d } }

// put returns a function that changes an element in the middle.
func put(v float64) func(*Case) {
	return func(c *Case) {
		x, f := c.Tensor(0), numbers(c, 0)
		if len(f) == 0 || !x.DType().IsFloat() {
			return
		}
		f[len(f)/2] = v
		y := tensor.Must(tensor.Zeros(x.DType(), x.Shape()...))
		if err := tensor.ConvertInto(y, tensor.Must(tensor.New(f, shapeOf(x.Shape(), len(f))...)),
			nil); err == nil {
			c.In[0] = y
		}
	}
}

// activateBy gives all gates of a recurrent network one activation function, of two
// directions the parameters of the first.
func activateBy(function string) func(*Case) {
	return func(c *Case) {
		n := map[string]int{"RNN": 1, "GRU": 2, "LSTM": 3}[c.Op]
		var alpha []float32
		if c.Text("direction", "forward") == "bidirectional" {
			for range n {
				alpha = append(alpha, 0.5)
			}
			n *= 2
		}
		c.set("activations", slices.Repeat([]string{function}, n))
		c.Attrs = slices.DeleteFunc(c.Attrs, func(a *onnx.Attribute) bool {
			return strings.HasPrefix(a.Name, "activation_")
		})
		if alpha != nil {
			c.set("activation_alpha", alpha).set("activation_beta", alpha)
		}
	}
}

// wideInt8 finds int8 numbers of which two products with uint8 may exceed 16 bits.
func wideInt8(c *Case) bool {
	for i := range c.In {
		if c.DType(i) == tensor.TypeInt8 && anyOf(i, func(v float64) bool { return math.Abs(v) > 64 })(c) {
			return true
		}
	}
	return false
}

func emptyData(c *Case) bool { return c.Tensor(0) != nil && c.Tensor(0).Len() == 0 }

// emptyNegativeAxis finds an empty input that a negative axis is for.
func emptyNegativeAxis(c *Case) bool {
	negative := func(v float64) bool { return v < 0 }
	if !emptyData(c) {
		return false
	}
	for _, name := range []string{"axis", "axes"} {
		if a := c.Attr(name); a != nil && (a.I < 0 || slices.ContainsFunc(a.Ints, func(v int64) bool {
			return v < 0
		})) {
			return true
		}
	}
	return slices.ContainsFunc(numbers(c, 1), negative)
}

// maskedScores finds an Attention whose output qk_matmul_output has masked elements.
func maskedScores(c *Case) bool {
	if mode := c.Int("qk_matmul_output_mode", 0); len(c.Out) < 4 || !c.Out[3] || mode != 1 && mode != 2 {
		return false
	}
	return c.DType(3) == tensor.TypeBool || c.Tensor(6) != nil || c.Int("is_causal", 0) == 1
}

// castTarget is the type that Cast or CastLike converts to.
func castTarget(c *Case) tensor.DType {
	if a := c.Attr("to"); a != nil && a.Type == onnx.AttrInt {
		return tensor.DType(a.I)
	}
	return c.DType(1)
}

func castOutOfRange(c *Case) bool {
	to := castTarget(c)
	if to == tensor.TypeFloat8E8M0 {
		return slices.ContainsFunc(numbers(c, 0), func(v float64) bool { return v <= 0 }) // it has no sign and no 0
	}
	if !c.DType(0).IsFloat() {
		return false
	}
	lo, hi := intRange(to)
	switch to {
	case tensor.TypeInt64:
		lo, hi = math.MinInt64, math.Nextafter(1<<63, 0)
	case tensor.TypeUint64:
		hi = math.Nextafter(1<<64, 0)
	}
	round := math.Trunc
	if to.Packed() {
		round = math.RoundToEven
	}
	return to.IsInteger() && slices.ContainsFunc(numbers(c, 0), func(v float64) bool {
		return !(round(v) >= lo && round(v) <= hi)
	})
}

// castTies finds numbers in the middle of two integers, of which the even one is nearer to 0.
func castTies(c *Case) bool {
	to := castTarget(c)
	return c.DType(0).IsFloat() && to.IsInteger() && to.Packed() &&
		slices.ContainsFunc(numbers(c, 0), func(v float64) bool { return math.Round(v) != math.RoundToEven(v) })
}

// emptyAxes finds axes that are given and name none of the dimensions of size 1.
func emptyAxes(c *Case) bool {
	axes := c.Tensor(1)
	return axes != nil && axes.Len() == 0 && slices.Contains(c.Tensor(0).Shape(), 1)
}

// clipInfinity finds an infinite element that no bound limits.
func clipInfinity(c *Case) bool {
	below := c.Tensor(1) == nil && c.Attr("min") == nil
	above := c.Tensor(2) == nil && c.Attr("max") == nil
	return slices.ContainsFunc(numbers(c, 0), func(v float64) bool {
		return below && math.IsInf(v, -1) || above && math.IsInf(v, 1)
	})
}

// setBoundNaN makes the bounds of a floating-point type NaN.
func setBoundNaN(c *Case) {
	for i := 1; i < len(c.In); i++ {
		if t := c.Tensor(i); t != nil && t.DType().IsFloat() {
			c.In[i] = filled(t, math.NaN())
		}
	}
}

// filled returns a tensor of the type and shape of t whose elements are v.
func filled(t *tensor.Tensor, v float64) *tensor.Tensor {
	f := slices.Repeat([]float64{v}, t.Len())
	y := tensor.Must(tensor.Zeros(t.DType(), t.Shape()...))
	if err := tensor.ConvertInto(y, tensor.Must(tensor.New(f, shapeOf(t.Shape(), len(f))...)), nil); err != nil {
		panic(err)
	}
	return y
}

// strideAboveWindow finds auto_pad, and a stride above the dilated window.
func strideAboveWindow(c *Case) bool {
	if p := c.Text("auto_pad", "NOTSET"); p != "SAME_UPPER" && p != "SAME_LOWER" {
		return false
	}
	var window []int64
	if a := c.Attr("kernel_shape"); a != nil {
		window = a.Ints
	} else {
		for _, d := range c.Tensor(1).Shape()[2:] {
			window = append(window, int64(d))
		}
	}
	for i, n := range window {
		if intsAt(c, "strides", i, 1) > (n-1)*intsAt(c, "dilations", i, 1)+1 {
			return true
		}
	}
	return false
}

// intsAt returns element i of a list of ints, or def.
func intsAt(c *Case, name string, i int, def int64) int64 {
	if a := c.Attr(name); a != nil && i < len(a.Ints) {
		return a.Ints[i]
	}
	return def
}

// gatherTexts finds strings of which an index selects several.
func gatherTexts(c *Case) bool {
	x := c.Tensor(0)
	axis := int(c.Int("axis", 0))
	if axis < 0 {
		axis += x.Rank()
	}
	n := 1
	for i := axis + 1; i < x.Rank(); i++ {
		n *= x.Dim(i)
	}
	return x.DType() == tensor.TypeString && n > 1
}

// wrapsTwice finds a Pad of mode wrap that puts more than a dimension before the elements.
func wrapsTwice(c *Case) bool {
	x := c.Tensor(0)
	pads := numbers(c, 1)
	if c.Text("mode", "") != "wrap" || len(pads) == 0 {
		return false
	}
	axes := numbers(c, 3)
	for i, p := range pads[:len(pads)/2] {
		axis := i
		if i < len(axes) {
			axis = int(axes[i])
		}
		if axis < 0 {
			axis += x.Rank()
		}
		if axis >= 0 && axis < x.Rank() && p > float64(x.Dim(axis)) {
			return true
		}
	}
	return false
}

// quantizesLarge finds quotients that leave int32 where ONNX Runtime's kernels convert
// before they saturate.
func quantizesLarge(c *Case) bool {
	to := tensor.DType(c.Int("output_dtype", int64(c.DType(2))))
	if c.DType(0) != tensor.TypeFloat16 && c.Int("block_size", 0) == 0 && !to.Packed() || len(numbers(c, 1)) == 0 {
		return false
	}
	least := slices.Min(numbers(c, 1))
	return anyOf(0, func(v float64) bool { return !(math.Abs(v/least) < 1<<31) })(c)
}

// shiftsFloat8 finds zero points of float8 that are not 0.
func shiftsFloat8(c *Case) bool {
	return float8s[c.DType(2)] && anyOf(2, func(v float64) bool { return v != 0 })(c)
}

var float8s = map[tensor.DType]bool{tensor.TypeFloat8E4M3FN: true, tensor.TypeFloat8E4M3FNUZ: true,
	tensor.TypeFloat8E5M2: true, tensor.TypeFloat8E5M2FNUZ: true}

func setFloat8ZeroPoint(c *Case) {
	if float8s[c.DType(2)] {
		c.In[2] = filled(c.Tensor(2), 1)
	}
}

var flags = []string{"keepdims", "noop_with_empty_axes", "interleaved", "is_causal", "unidirectional", "do_rotary"}

// badFlag finds a flag that is neither 0 nor 1.
func badFlag(c *Case) bool {
	return slices.ContainsFunc(flags, func(name string) bool { return c.Int(name, 0)&^1 != 0 })
}

func setBadFlag(c *Case) {
	switch c.Op {
	case "Attention", "MultiHeadAttention", "QAttention":
		c.set("is_causal", int64(2))
		if c.Domain != "" {
			c.Attrs = slices.DeleteFunc(c.Attrs, func(a *onnx.Attribute) bool { return a.Name == "is_causal" })
			c.set("unidirectional", int64(2))
		}
	case "RotaryEmbedding", "MRotaryEmbedding":
		c.set("interleaved", int64(2))
	case "GroupQueryAttention":
		c.set("do_rotary", int64(2))
	default:
		c.set("keepdims", int64(2))
	}
}

// splitsTrailingSpace finds a StringSplit at white space that leaves some at the end.
func splitsTrailingSpace(c *Case) bool {
	return c.Attr("maxsplit") != nil && c.Text("delimiter", "") == "" &&
		slices.ContainsFunc(tensor.MustData[string](c.Tensor(0)), func(s string) bool {
			return strings.TrimRight(s, " ") != s
		})
}

// leavesFloat32 finds a reduction whose terms add up to more than the largest float32.
func leavesFloat32(c *Case) bool {
	sum := 0.0
	for _, v := range numbers(c, 0) {
		if c.Op == "ReduceL2" {
			sum += v * v
		} else {
			sum += math.Exp(v)
		}
	}
	return !(sum <= math.MaxFloat32)
}

// leavesIntegers finds integers whose sum, sum of squares or product may exceed int32, or for int64
// the integers that float64 represents.
func leavesIntegers(c *Case) bool {
	most := map[tensor.DType]float64{tensor.TypeInt32: math.MaxInt32, tensor.TypeInt64: 1 << 53}[c.DType(0)]
	sum, product := 0.0, 1.0
	for _, v := range numbers(c, 0) {
		v = math.Abs(v)
		product *= max(v, 1)
		if c.Op == "ReduceL2" || c.Op == "ReduceSumSquare" {
			v *= v
		}
		sum += v
	}
	if c.Op == "ReduceProd" {
		sum = product
	}
	return most > 0 && sum > most
}

// allZero finds an input whose elements are all 0.
func allZero(c *Case) bool {
	return !emptyData(c) && !anyOf(0, func(v float64) bool { return v != 0 })(c)
}

// dilatedSame finds auto_pad SAME_UPPER or SAME_LOWER with a dilation above 1.
func dilatedSame(c *Case) bool {
	p, d := c.Text("auto_pad", "NOTSET"), c.Attr("dilations")
	return (p == "SAME_UPPER" || p == "SAME_LOWER") && d != nil && slices.ContainsFunc(d.Ints, func(v int64) bool {
		return v > 1
	})
}

func setDilatedSame(c *Case) {
	n := 0
	if k := c.Attr("kernel_shape"); k != nil {
		n = len(k.Ints)
	}
	c.Attrs = slices.DeleteFunc(c.Attrs, func(a *onnx.Attribute) bool { return a.Name == "pads" })
	c.set("auto_pad", "SAME_UPPER").set("dilations", slices.Repeat([]int64{2}, n))
}

// otherMask finds a mask whose planes are not those of each image or of the batch.
func otherMask(c *Case) bool {
	mask := c.Tensor(1)
	return mask.Dim(0)*mask.Dim(1) > 1
}

// unmaskedLast finds a unidirectional attention over more keys than queries.
func unmaskedLast(c *Case) bool {
	q, k := c.Tensor(0), c.Tensor(1)
	if c.Int("unidirectional", 0) != 1 || k == nil || q.Rank() != 3 || k.Rank() < 3 {
		return false
	}
	return k.Dim(k.Rank()-2) > q.Dim(1)
}

// nearestTie finds a coordinate that rounding may move to another nearest pixel.
func nearestTie(c *Case) bool {
	x, scales := c.Tensor(0), numbers(c, 2)
	if len(c.In) == 2 {
		scales = numbers(c, 1)
	}
	if c.Text("mode", "nearest") != "nearest" || c.Attr("axes") != nil || len(scales) != x.Rank() || x.Len() == 0 {
		return false
	}
	half := 0.5
	if c.Text("coordinate_transformation_mode", "half_pixel") == "asymmetric" {
		half = 0
	}
	change := 0.0
	if strings.HasPrefix(c.Text("nearest_mode", "round_prefer_floor"), "round") {
		change = 0.5
	}
	for d, s := range scales {
		for o := range int(float64(x.Dim(d)) * s) {
			at := (float64(o)+half)/s - half - change
			if by := math.Abs(at - math.Round(at)); by > 0 && by < 1e-5 {
				return true
			}
		}
	}
	return false
}

// alignsFraction finds a Resize to corners whose scales give a size that is rounded.
func alignsFraction(c *Case) bool {
	if mode := c.Text("coordinate_transformation_mode", ""); mode != "align_corners" && mode != "tf_crop_and_resize" {
		return false
	}
	x, scales := c.Tensor(0), numbers(c, len(c.In)-1)
	if len(c.In) > 2 {
		scales = numbers(c, 2)
	}
	for i, s := range scales {
		axis := i
		if a := c.Attr("axes"); a != nil && i < len(a.Ints) {
			axis = int(a.Ints[i])
		}
		if axis < 0 {
			axis += x.Rank()
		}
		if axis >= 0 && axis < x.Rank() && isFraction(s*float64(x.Dim(axis))) {
			return true
		}
	}
	return false
}

// pastWithoutPresent finds an operator of com.microsoft with an input past and without
// one of the outputs of the present.
func pastWithoutPresent(c *Case) bool {
	past := map[string]int{"MultiHeadAttention": 6, "Attention": 4, "DecoderMaskedMultiHeadAttention": 5,
		"GroupQueryAttention": 3}[c.Op]
	if past >= len(c.In) || c.In[past] == nil {
		return false
	}
	present := 3 // output, present_key, present_value
	if c.Op == "Attention" {
		present = 2
	}
	return len(c.Out) < present || slices.Contains(c.Out[:present], false)
}

// slidingCacheNotFull finds a sliding_window_cache with rows after the tokens.
func slidingCacheNotFull(c *Case) bool {
	if c.Int("sliding_window_cache", 0) != 1 || c.Tensor(3) == nil {
		return false
	}
	capacity := float64(c.Tensor(3).Dim(2))
	window := float64(c.Int("local_window_size", -1))
	return window < capacity || slices.ContainsFunc(numbers(c, 5), func(last float64) bool { return last+1 < capacity })
}

// wideRotaryCaches finds caches that have more columns than the rotation takes.
func wideRotaryCaches(c *Case) bool {
	dim, cos := c.Int("rotary_embedding_dim", 0), c.Tensor(2)
	return dim > 0 && int64(cos.Dim(cos.Rank()-1)) > dim/2
}

// leadingZero finds a word whose first character is 0.
func leadingZero(c *Case) bool {
	t := c.Tensor(0)
	n := t.Dim(t.Rank() - 1)
	for i := 0; i < t.Len(); i += max(n, 1) {
		if tensor.MustData[int32](t)[i] == 0 {
			return true
		}
	}
	return false
}

// endlessBackwards finds a Slice that goes backwards to 2³¹ - 1.
func endlessBackwards(c *Case) bool {
	if c.Tensor(2) == nil || c.Tensor(4) == nil {
		return false
	}
	ends, err := Floats(c.Tensor(2))
	steps, err2 := Floats(c.Tensor(4))
	if err != nil || err2 != nil {
		return false
	}
	for i, e := range ends {
		if e == math.MaxInt32 && i < len(steps) && steps[i] < 0 {
			return true
		}
	}
	return false
}

// oneOutOfRange finds an output type in which the probability 1 has no integer.
func oneOutOfRange(c *Case) bool {
	scale, zero := c.Tensor(3), c.Tensor(4)
	if scale == nil || scale.Len() == 0 {
		return false
	}
	_, hi := intRange(c.DType(0))
	z := 0.0
	if zero != nil {
		if f, err := Floats(zero); err == nil && len(f) > 0 {
			z = f[0]
		}
	}
	f, err := Floats(scale)
	return err == nil && math.RoundToEven(1/f[0])+z > hi
}

// missesParameter finds one of some activation functions of a recurrent network, in
// lower case, for which activation_alpha or activation_beta holds no value.
func missesParameter(c *Case, names ...string) bool {
	activations := c.Attr("activations")
	if activations == nil {
		return false
	}
	alphas, betas := 0, 0 // that are left
	if a := c.Attr("activation_alpha"); a != nil {
		alphas = len(a.Floats)
	}
	if b := c.Attr("activation_beta"); b != nil {
		betas = len(b.Floats)
	}
	for _, f := range activations.Strings {
		f := strings.ToLower(string(f))
		switch f {
		case "affine", "scaledtanh", "hardsigmoid":
			alphas, betas = alphas-1, betas-1
		case "leakyrelu", "thresholdedrelu", "elu":
			alphas--
		default:
			continue
		}
		takesBeta := f == "affine" || f == "scaledtanh" || f == "hardsigmoid"
		if (alphas < 0 || takesBeta && betas < 0) && slices.Contains(names, f) {
			return true
		}
	}
	return false
}

// unscaled calls f with the dimension of each axis that a Resize with a roi does not scale, and
// the position of the axis in scales, sizes and roi.
func unscaled(c *Case, f func(i, dim int)) {
	x := c.Tensor(0)
	by, sizes := numbers(c, 2), numbers(c, 3)
	if len(by) == 0 {
		by = sizes
	}
	for i, s := range by {
		axis := i
		if a := c.Attr("axes"); a != nil && i < len(a.Ints) {
			axis = int(a.Ints[i])
		}
		if axis < 0 {
			axis += x.Rank()
		}
		if axis < 0 || axis >= x.Rank() {
			continue
		}
		if d := x.Dim(axis); s == 1 && len(sizes) == 0 || len(sizes) > 0 && int(s) == d {
			f(i, d)
		}
	}
}

// cropsUnscaled finds a roi that crops an axis which keeps its size.
func cropsUnscaled(c *Case) bool {
	roi := numbers(c, 1)
	n, found := len(roi)/2, false
	unscaled(c, func(i, dim int) {
		found = found || i < n && dim > 1 && (roi[i] != 0 || roi[n+i] != 1)
	})
	return found && c.Text("coordinate_transformation_mode", "") == "tf_crop_and_resize"
}

func setCropsUnscaled(c *Case) {
	if len(c.In) < 3 {
		return
	}
	n := max(len(numbers(c, 2)), len(numbers(c, 3)))
	roi := make([]float32, 2*n)
	for i := range n {
		roi[n+i] = 1
	}
	unscaled(c, func(i, dim int) { roi[i], roi[n+i] = 0.25, 0.75 })
	c.In[1] = tensor.Must(tensor.New(roi, 2*n))
	c.set("coordinate_transformation_mode", "tf_crop_and_resize")
}
