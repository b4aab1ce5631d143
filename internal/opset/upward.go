package opset

import (
	"errors"
	"fmt"
	"slices"

	"github.com/onward-ml/onward/tensor"
)

// upward holds the adapters to the version in the key from the one before.
var upward = map[change]adapter{
	{"BatchNormalization", 14}: batchNormUp,
	{"Clip", 11}:               both(floatAttrToInput("min", 1), floatAttrToInput("max", 2)),
	{"DFT", 20}: func(x *step) error { // the axis was an attribute, 1 by default, and is a scalar
		if err := x.ref("axis"); err != nil {
			return err
		}
		x.setInput(2, x.constant("axis", tensor.Scalar(x.int("axis", 1))))
		x.drop("axis")
		return nil
	},
	{"Dropout", 10}: func(x *step) error { // the mask was of the type of the data
		return x.unused(1, "the mask is undefined outside of training before opset 12")
	},
	{"Dropout", 12}: func(x *step) error {
		if err := x.unused(1, "the mask is undefined outside of training before opset 12"); err != nil {
			return err
		}
		if a := x.n.Attribute("ratio"); a != nil {
			if err := x.ref("ratio"); err != nil {
				return err
			}
			x.setInput(1, x.constant("ratio", tensor.Scalar(a.F)))
			x.drop("ratio")
		}
		return nil
	},
	{"GridSample", 20}:         gridModes(map[string]string{"bilinear": "linear", "bicubic": "cubic"}),
	{"GroupNormalization", 21}: groupNormUp,
	{"Hardmax", 13}:            softmaxUp,
	{"LogSoftmax", 13}:         softmaxUp,
	{"Pad", 11}:                both(attrToInput("pads", 1), floatAttrToInput("value", 2)),
	{"Resize", 11}:             resizeUp,
	{"Resize", 13}: func(x *step) error {
		if mode := x.string("coordinate_transformation_mode", ""); mode == "tf_half_pixel_for_nn" {
			return fmt.Errorf("version 13 has no coordinate_transformation_mode %s", mode)
		}
		return nil
	},
	{"RoiAlign", 16}: func(x *step) error { // half_pixel became the default
		x.set("coordinate_transformation_mode", "output_half_pixel")
		return nil
	},
	{"Scan", 9}: scanUp,
	{"Scatter", 11}: func(x *step) error {
		x.n.OpType = "ScatterElements"
		return nil
	},
	{"Slice", 10}: func(x *step) error {
		return both(attrToInput("starts", 1), attrToInput("ends", 2), attrToInput("axes", 3))(x)
	},
	{"Softmax", 13}: softmaxUp,
	{"Split", 13}:   attrToInput("split", 1),
	{"Split", 18}: func(x *step) error {
		if x.input(1) == "" {
			x.set("num_outputs", len(x.n.Outputs))
		}
		return nil
	},
	{"Squeeze", 13}: attrToInput("axes", 1),
	{"TopK", 10}: func(x *step) error {
		if err := x.ref("k"); err != nil {
			return err
		}
		x.setInput(1, x.vector("k", x.int("k", 0)))
		x.drop("k")
		return nil
	},
	{"Unsqueeze", 13}: attrToInput("axes", 1),
	{"Upsample", 9}: func(x *step) error {
		if err := x.ref("scales"); err != nil {
			return err
		}
		scales := x.n.Attribute("scales")
		if scales == nil {
			return errors.New("attribute scales is missing")
		}
		t, err := tensor.New(scales.Floats, len(scales.Floats))
		if err != nil {
			return err
		}
		x.setInput(1, x.constant("scales", t))
		x.drop("scales")
		return nil
	},
	{"Upsample", 10}: func(x *step) error {
		x.n.OpType = "Resize"
		return nil
	},
	{"ReduceSum", 13}: attrToInput("axes", 1),
}

func init() {
	for _, op := range []string{"ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean",
		"ReduceMin", "ReduceProd", "ReduceSumSquare"} {
		upward[change{op, 18}] = attrToInput("axes", 1)
		downward[change{op, 18}] = reduceDown
	}
}

// floatAttrToInput makes an input of the data's type of an attribute.
func floatAttrToInput(name string, input int) adapter {
	return func(x *step) error {
		a := x.n.Attribute(name)
		if a == nil {
			return nil
		}
		if err := x.ref(name); err != nil {
			return err
		}
		c, err := x.scalar(name, x.input(0), float64(a.F))
		if err != nil {
			return err
		}
		x.setInput(input, c)
		x.drop(name)
		return nil
	}
}

// batchNormUp refuses outputs of training, which version 14 has in another number and meaning.
func batchNormUp(x *step) error {
	for i := 1; i < len(x.n.Outputs); i++ {
		if err := x.unused(i, "its outputs for training have another meaning since version 14"); err != nil {
			return err
		}
	}
	return nil
}

func gridModes(names map[string]string) adapter {
	return func(x *step) error {
		if err := x.ref("mode"); err != nil {
			return err
		}
		if a := x.n.Attribute("mode"); a != nil && names[a.S] != "" {
			x.set("mode", names[a.S])
		} else if a == nil {
			x.set("mode", schemaOf("GridSample", x.to).attrs["mode"])
		}
		return nil
	}
}

// groupNormUp repeats scale and bias, which were per group, for the channels of the group.
func groupNormUp(x *step) error {
	if err := x.ref("num_groups"); err != nil {
		return err
	}
	data := x.input(0)
	channels := x.emit("Shape", "", []string{data}, attribute("start", 1), attribute("end", 2))
	per := x.emit("Div", "", []string{channels, x.vector("groups", x.int("num_groups", 1))})
	shape := x.emit("Concat", "", []string{x.vector("one", 1), per}, attribute("axis", 0))
	column, flat := x.vector("column", -1, 1), x.vector("flat", -1)
	for _, i := range []int{1, 2} {
		like := x.input(i)
		y := x.emit("Reshape", like, []string{like, column})
		y = x.emit("Expand", like, []string{y, shape})
		x.setInput(i, x.emit("Reshape", like, []string{y, flat}))
	}
	return nil
}

// softmaxUp flattens all dimensions from the axis on to one, as versions before 13 did.
func softmaxUp(x *step) error {
	if err := x.ref("axis"); err != nil {
		return err
	}
	axis := x.int("axis", 1)
	if axis == -1 {
		x.set("axis", -1)
		return nil
	}
	data := x.input(0)
	// The softmax of an empty tensor is empty along any axis, and Reshape would take its sizes 0
	// for those of its input.
	empty := slices.Contains(x.s.value(data).shape, 0)
	if r, err := x.rank(data); err == nil && (empty || axis == r-1 || axis == 0 && r <= 1) {
		x.set("axis", -1)
		return nil
	}
	shape := x.emit("Shape", "", []string{data})
	x.setInput(0, x.emit("Flatten", data, []string{data}, attribute("axis", axis)))
	x.set("axis", -1)
	x.then(0, "Reshape", []string{shape})
	return nil
}

// resizeUp states what version 10 does not define: rounding as of ONNX Runtime, up if an axis
// shrinks and down if it grows.
func resizeUp(x *step) error {
	if err := x.ref("mode"); err != nil {
		return err
	}
	x.set("coordinate_transformation_mode", "asymmetric")
	if x.string("mode", "nearest") == "nearest" {
		scales, err := x.floats(x.input(1))
		if err != nil {
			return fmt.Errorf("how nearest rounds depends on the scales: %w", err)
		}
		grows, shrinks := slices.ContainsFunc(scales, func(v float32) bool { return v > 1 }),
			slices.ContainsFunc(scales, func(v float32) bool { return v < 1 })
		mode := "floor"
		switch {
		case grows && shrinks:
			return fmt.Errorf("the scales %v shrink one axis and grow another, which rounds in two ways", scales)
		case shrinks:
			mode = "ceil"
		}
		x.set("nearest_mode", mode)
	}
	scales := x.input(1)
	x.setInput(1, x.constant("roi", tensor.Must(tensor.New([]float32{}, 0))))
	x.setInput(2, scales)
	return nil
}

// scanUp removes the dimension of the batch, which must be 1, from what version
// 8 reads and returns.
func scanUp(x *step) error {
	if err := x.ref("directions"); err != nil {
		return err
	}
	if x.input(0) != "" {
		return errors.New("sequence_lens has no form in version 9")
	}
	inputs := x.n.Inputs[min(1, len(x.n.Inputs)):]
	for i, name := range inputs {
		shape := x.s.value(name).shape
		if len(shape) == 0 || shape[0] != 1 {
			return fmt.Errorf("input %d (%q) has shape %v: the batch must be 1", i+1, name, shape)
		}
		in, attrs := x.axes([]string{name}, 0)
		inputs[i] = x.emit("Squeeze", name, in, attrs...)
	}
	x.n.Inputs = inputs
	if a := x.n.Attribute("directions"); a != nil {
		x.set("scan_input_directions", append([]int64{}, a.Ints...))
		x.drop("directions")
	}
	for i, out := range x.n.Outputs {
		if out != "" {
			in, attrs := x.axes(nil, 0)
			x.then(i, "Unsqueeze", in, attrs...)
		}
	}
	return nil
}

// droppedOnes removes an attribute of ones, which is what its absence means.
func droppedOnes(name string) adapter {
	return func(x *step) error {
		if a := x.n.Attribute(name); a != nil && a.RefAttrName == "" &&
			!slices.ContainsFunc(a.Ints, func(v int64) bool { return v != 1 }) {
			x.drop(name)
		}
		return nil
	}
}

// initializer makes an initializer of a Constant whose type Constant does not have in a version.
func initializer(x *step) error {
	t := constantValue(x.n)
	if t == nil {
		return nil
	}
	s := schemaOf("Constant", x.to)
	typ := tensor.TensorType(tensor.DType(t.DataType)).String()
	if x.s.function || slices.Contains(s.types["T"], typ) {
		return nil
	}
	p := *t
	p.Name = x.n.Outputs[0]
	x.s.added = append(x.s.added, &p)
	x.gone = true
	return nil
}
