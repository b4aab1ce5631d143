package opset

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/onward-ml/onward/tensor"
)

// downward holds the adapters from the version in the key to the one before.
var downward = map[change]adapter{
	{"Attention", 24}: func(x *step) error {
		if x.input(6) != "" {
			return errors.New("version 23 has no input nonpad_kv_seqlen")
		}
		return nil
	},
	{"Attention", 25}: func(x *step) error {
		for _, name := range []string{"left_window_size", "right_window_size"} {
			if x.int(name, -1) != -1 {
				return fmt.Errorf("version 24 has no attribute %s", name)
			}
			x.drop(name)
		}
		return nil
	},
	{"AveragePool", 19}: droppedOnes("dilations"),
	{"BatchNormalization", 14}: func(x *step) error {
		if x.int("training_mode", 0) != 0 {
			return errors.New("its outputs for training have another meaning before version 14")
		}
		return nil
	},
	{"Clip", 11}:             both(floatInputToAttr("min", 1), floatInputToAttr("max", 2)),
	{"Constant", 9}:          initializer,
	{"Constant", 12}:         constantDown,
	{"DequantizeLinear", 13}: oneScale,
	{"DequantizeLinear", 23}: func(x *step) error {
		if a := x.n.Attribute("output_dtype"); a != nil && a.RefAttrName == "" &&
			x.s.value(x.input(1)).typ == tensor.TensorType(tensor.DType(a.I)).String() {
			x.drop("output_dtype") // results have the type of the scale
		}
		return nil
	},
	{"DFT", 20}: func(x *step) error { // the axis is -2 by default, was 1
		axis := int64(-2)
		if x.input(2) != "" {
			v, err := x.ints(x.input(2))
			if err != nil || len(v) != 1 {
				return errors.Join(err, errors.New("the axis must be a constant"))
			}
			axis = v[0]
			x.removeInput(2)
		}
		if axis < 0 {
			r, err := x.rank(x.input(0))
			if err != nil {
				return err
			}
			axis += r
		}
		x.set("axis", axis)
		return nil
	},
	{"Dropout", 12}: dropoutDown,
	{"Dropout", 10}: func(x *step) error {
		return x.unused(1, "the mask is undefined outside of training before opset 12")
	},
	{"Gemm", 11}: func(x *step) error {
		if x.input(2) != "" {
			return nil
		}
		c, err := x.scalar("c", x.input(0), 0, 1)
		x.setInput(2, c)
		return err
	},
	{"GridSample", 20}: func(x *step) error {
		r, err := x.rank(x.input(0))
		if err != nil || r != 4 {
			return errors.Join(err, fmt.Errorf("the input has rank %d, and version 16 takes rank 4", r))
		}
		return gridModes(map[string]string{"linear": "bilinear", "cubic": "bicubic"})(x)
	},
	{"GroupNormalization", 21}: groupNormDown,
	{"Hardmax", 13}:            softmaxDown,
	{"LogSoftmax", 13}:         softmaxDown,
	{"LpPool", 18}:             droppedOnes("dilations"),
	{"Max", 8}:                 sameShapes,
	{"MaxPool", 8}:             func(x *step) error { return x.unused(1, "version 1 has no output Indices") },
	{"MaxPool", 10}:            droppedOnes("dilations"),
	{"Mean", 8}:                sameShapes,
	{"Min", 8}:                 sameShapes,
	{"Pad", 11}:                both(inputToAttr("pads", 1), floatInputToAttr("value", 2)),
	{"Pad", 18}:                padDown,
	{"Pad", 19}:                without("mode", "wrap"),
	{"QuantizeLinear", 13}:     oneScale,
	{"QuantizeLinear", 21}:     zeroPoint,
	{"Range", 27}: func(x *step) error { // of types that version 11 does not have
		x.drop("stash_type")
		return nil
	},
	{"ReduceSum", 13}: reduceDown,
	{"Reshape", 14}: func(x *step) error {
		if x.int("allowzero", 0) == 0 {
			return nil
		}
		shape, err := x.ints(x.input(1))
		if err != nil || slices.Contains(shape, 0) {
			return errors.Join(err,
				errors.New("version 13 has no attribute allowzero, and the shape has or may have a 0"))
		}
		x.drop("allowzero")
		return nil
	},
	{"Resize", 10}: func(x *step) error {
		scales, err := x.floats(x.input(1))
		if err != nil || slices.ContainsFunc(scales, func(v float32) bool { return v < 1 }) {
			return errors.Join(err, fmt.Errorf("Upsample takes scales of at least 1, got %v", scales))
		}
		x.n.OpType = "Upsample"
		return nil
	},
	{"Resize", 11}: resizeDown,
	{"Resize", 13}: func(x *step) error { // roi and scales were required
		for _, i := range []int{1, 2} {
			if x.input(i) == "" {
				x.setInput(i, x.constant("empty", tensor.Must(tensor.New([]float32{}, 0))))
			}
		}
		return nil
	},
	{"Resize", 18}: resizeAxes,
	{"Resize", 19}: both(without("coordinate_transformation_mode", "half_pixel_symmetric"),
		without("keep_aspect_ratio_policy", "not_larger", "not_smaller")),
	{"RoiAlign", 16}: func(x *step) error {
		if mode := x.string("coordinate_transformation_mode", "half_pixel"); mode != "output_half_pixel" {
			return fmt.Errorf("version 10 has no coordinate_transformation_mode %s", mode)
		}
		x.drop("coordinate_transformation_mode")
		return nil
	},
	{"Scan", 9}: scanDown,
	{"ScatterElements", 11}: func(x *step) error {
		x.n.OpType = "Scatter"
		return negativeAxes(x)
	},
	{"ScatterElements", 18}: without("reduction", "max", "min"),
	{"ScatterND", 18}:       without("reduction", "max", "min"),
	{"Shape", 15}: func(x *step) error {
		start, end := x.int("start", 0), x.int("end", math.MaxInt64)
		if err := x.ref("start", "end"); err != nil {
			return err
		}
		if start != 0 || end != math.MaxInt64 {
			x.then(0, "Slice", []string{x.vector("start", start), x.vector("end", end)})
		}
		x.drop("start")
		x.drop("end")
		return nil
	},
	{"Slice", 10}: func(x *step) error {
		if x.input(4) != "" {
			steps, err := x.ints(x.input(4))
			if err != nil || slices.ContainsFunc(steps, func(v int64) bool { return v != 1 }) {
				return errors.Join(err, fmt.Errorf("version 1 takes no steps, got %v", steps))
			}
			x.removeInput(4)
		}
		return both(inputToAttr("starts", 1), inputToAttr("ends", 2), inputToAttr("axes", 3))(x)
	},
	{"Slice", 11}: func(x *step) error {
		if x.input(3) == "" {
			return nil
		}
		axes, err := x.ints(x.input(3))
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(axes, func(v int64) bool { return v < 0 }) {
			return nil
		}
		r, err := x.rank(x.input(0))
		if err != nil {
			return err
		}
		x.setInput(3, x.vector("axes", positive(axes, r)...))
		return nil
	},
	{"Softmax", 13}: softmaxDown,
	{"Split", 13}:   inputToAttr("split", 1),
	{"Split", 18}:   splitDown,
	{"Squeeze", 13}: inputToAttr("axes", 1),
	{"Sum", 8}:      sumDown,
	{"TopK", 10}: func(x *step) error {
		k, err := x.ints(x.input(1))
		if err != nil || len(k) != 1 {
			return errors.Join(err, errors.New("k must be a constant"))
		}
		x.set("k", k[0])
		x.removeInput(1)
		return nil
	},
	{"TopK", 11}: func(x *step) error {
		x.drop("sorted") // sorted is one of the orders that 0 allows
		return negativeAxes(x)
	},
	{"Unsqueeze", 13}: inputToAttr("axes", 1),
	{"Upsample", 9}: func(x *step) error {
		scales, err := x.floats(x.input(1))
		if err != nil {
			return err
		}
		x.set("scales", slices.Clone(scales))
		x.removeInput(1)
		return nil
	},
}

func init() {
	for _, op := range []string{"ArgMax", "ArgMin", "Compress", "Concat", "Flatten", "Gather", "Hardmax", "LogSoftmax",
		"OneHot", "ReduceL1", "ReduceL2", "ReduceLogSum",
		"ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare",
		"Softmax", "Split", "Squeeze", "Unsqueeze"} {
		downward[change{op, 11}] = negativeAxes
	}
	for _, op := range []string{"LSTM", "GRU", "RNN"} {
		downward[change{op, 14}] = func(x *step) error {
			if x.int("layout", 0) != 0 {
				return errors.New("version 7 has no attribute layout, whose value is 1")
			}
			return nil
		}
	}
}

// positive returns axes counted from the first.
func positive(axes []int64, rank int64) []int64 {
	axes = slices.Clone(axes)
	for i, a := range axes {
		if a < 0 {
			axes[i] += rank
		}
	}
	return axes
}

// negativeAxes counts axes from the first. Most operators know negative axes since opset 11.
func negativeAxes(x *step) error {
	for _, name := range []string{"axis", "axes"} {
		a := x.n.Attribute(name)
		if a == nil || a.RefAttrName != "" || a.I >= 0 && !slices.ContainsFunc(a.Ints, func(v int64) bool {
			return v < 0
		}) {
			continue
		}
		r, err := x.rank(x.input(0))
		if err != nil {
			return fmt.Errorf("attribute %s counts from the last axis: %w", name, err)
		}
		switch {
		case x.op == "OneHot" && a.I == -1:
			continue // has always been valid
		case x.op == "OneHot":
			r++
		case x.op == "Unsqueeze":
			r += int64(len(a.Ints))
		}
		if name == "axis" {
			x.set(name, positive([]int64{a.I}, r)[0])
		} else {
			x.set(name, positive(a.Ints, r))
		}
	}
	return nil
}

// without refuses values of an attribute that the older version does not have.
func without(name string, values ...string) adapter {
	return func(x *step) error {
		if a := x.n.Attribute(name); a != nil && slices.Contains(values, a.S) {
			return fmt.Errorf("the older version has no %s %s", name, a.S)
		}
		return nil
	}
}

// floatInputToAttr makes an attribute of a constant input of one element.
func floatInputToAttr(name string, input int) adapter {
	return func(x *step) error {
		if x.input(input) == "" {
			return nil
		}
		v, err := x.floats(x.input(input))
		if err != nil || len(v) != 1 {
			return errors.Join(err, fmt.Errorf("%s has %d elements, want a constant of one", name, len(v)))
		}
		x.set(name, v[0])
		x.removeInput(input)
		return nil
	}
}

// constantDown states a Constant by a tensor.
func constantDown(x *step) error {
	for _, a := range x.n.Attributes {
		if a.Name != "value" && a.RefAttrName != "" {
			return x.ref(a.Name)
		}
	}
	if x.n.Attribute("value") == nil && x.n.Attribute("sparse_value") == nil {
		if t := constantValue(x.n); t != nil {
			x.n.Attributes = nil
			x.set("value", t)
		}
	}
	return nil
}

// oneScale refuses scales per axis, and drops the axis.
func oneScale(x *step) error {
	r, err := x.rank(x.input(1))
	if err != nil || r > 0 {
		return errors.Join(err, errors.New("version 10 takes one scale, not one per axis"))
	}
	x.drop("axis")
	return nil
}

// maxElements is the most elements of a constant that shapes or attributes alone determine.
const maxElements = 1 << 20

// zeroPoint states the type of the results by a zero point.
func zeroPoint(x *step) error {
	a := x.n.Attribute("output_dtype")
	if a == nil || a.RefAttrName != "" {
		return x.ref("output_dtype")
	}
	if x.input(2) == "" && a.I != 0 {
		shape := x.s.value(x.input(1)).shape
		if shape == nil || slices.ContainsFunc(shape, func(d int64) bool { return d < 0 }) {
			return errors.New("version 19 has no attribute output_dtype, and the shape of the scale is unknown")
		}
		dims, n := make([]int, len(shape)), int64(1)
		for i, d := range shape {
			if dims[i], n = int(d), n*min(d, maxElements+1); n > maxElements {
				return fmt.Errorf("a zero point of shape %v has more than %d elements", shape, maxElements)
			}
		}
		z, err := tensor.Zeros(tensor.DType(a.I), dims...)
		if err != nil {
			return err
		}
		x.setInput(2, x.constant("zero_point", z))
	}
	x.drop("output_dtype")
	return nil
}

func dropoutDown(x *step) error {
	if err := x.unused(1, "the mask is undefined outside of training before opset 12"); err != nil {
		return err
	}
	if x.input(2) != "" {
		t, err := x.decode(x.input(2))
		if err != nil || t.Len() != 1 || t.DType() != tensor.TypeBool || tensor.MustData[bool](t)[0] {
			return errors.Join(err, errors.New("version 10 has no training mode"))
		}
		x.removeInput(2)
	}
	x.drop("seed") // of training
	return floatInputToAttr("ratio", 1)(x)
}
