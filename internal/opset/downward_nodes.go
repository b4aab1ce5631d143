package opset

import (
	"errors"
	"fmt"
	"slices"

	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// groupNormDown normalizes groups as channels of InstanceNormalization, and scales and shifts the
// channels by nodes of their own: version 18, whose scales are per group, is deprecated.
func groupNormDown(x *step) error {
	if err := x.ref("num_groups"); err != nil {
		return err
	}
	data := x.input(0)
	r, err := x.rank(data)
	if err != nil {
		return err
	}
	groups := x.int("num_groups", 1)
	if groups < 1 || groups > maxElements {
		return fmt.Errorf("num_groups is %d, want 1 to %d", groups, maxElements)
	}
	column := []int64{-1}
	for range r - 2 {
		column = append(column, 1)
	}
	shape, columns := x.emit("Shape", "", []string{data}), x.vector("column", column...)
	inputs := []string{x.emit("Reshape", data, []string{data, x.vector("groups", 0, groups, -1)})}
	for i := range 2 {
		c, err := x.scalar("ones_and_zeros", data, float64(1-i), int(groups))
		if err != nil {
			return err
		}
		inputs = append(inputs, c)
	}
	var attrs []*onnx.Attribute
	if a := x.n.Attribute("epsilon"); a != nil {
		attrs = append(attrs, a)
	}
	y := x.emit("InstanceNormalization", data, inputs, attrs...)
	y = x.emit("Reshape", data, []string{y, shape})
	y = x.emit("Mul", data, []string{y, x.emit("Reshape", data, []string{x.input(1), columns})})
	x.n.OpType, x.n.Attributes = "Add", nil
	x.n.Inputs = []string{y, x.emit("Reshape", data, []string{x.input(2), columns})}
	return nil
}

// softmaxDown moves the axis to the end, if dimensions follow it, since versions
// before 13 flatten these.
func softmaxDown(x *step) error {
	if err := x.ref("axis"); err != nil {
		return err
	}
	axis := x.int("axis", -1)
	if axis == -1 {
		x.set("axis", -1)
		return nil
	}
	data := x.input(0)
	r, err := x.rank(data)
	if err != nil {
		return err
	}
	if axis < 0 {
		axis += r
	}
	x.set("axis", -1)
	if axis == r-1 {
		return nil
	}
	perm := make([]int64, r)
	for i := range perm {
		perm[i] = int64(i)
	}
	perm[axis], perm[r-1] = r-1, axis // its own inverse
	x.setInput(0, x.emit("Transpose", data, []string{data}, attribute("perm", perm)))
	x.s.values[x.input(0)] = value{x.s.value(data).typ, slices.Repeat([]int64{-1}, int(r))}
	x.then(0, "Transpose", nil, attribute("perm", perm))
	return nil
}

// sameShapes refuses shapes that must be broadcast, or may have to.
func sameShapes(x *step) error {
	first := x.s.value(x.input(0)).shape
	for _, name := range x.n.Inputs {
		shape := x.s.value(name).shape
		if shape == nil || !slices.Equal(shape, first) || slices.ContainsFunc(shape, func(d int64) bool {
			return d < 0
		}) {
			return fmt.Errorf("version 6 does not broadcast, and the shapes of %q and %q are not known to be equal",
				x.input(0), name)
		}
	}
	return nil
}

// sumDown adds two at a time, since Add broadcasts since opset 7.
func sumDown(x *step) error {
	if sameShapes(x) == nil {
		return nil
	}
	sum := x.input(0)
	for i := 1; i < len(x.n.Inputs)-1; i++ {
		sum = x.emit("Add", sum, []string{sum, x.input(i)})
	}
	x.n.OpType = "Add"
	x.n.Inputs = []string{sum, x.n.Inputs[len(x.n.Inputs)-1]}
	return nil
}

// padDown states pads of some axes for all.
func padDown(x *step) error {
	if x.input(3) == "" {
		return nil
	}
	axes, err := x.ints(x.input(3))
	if err != nil {
		return err
	}
	pads, err := x.ints(x.input(1))
	if err != nil {
		return err
	}
	r, err := x.rank(x.input(0))
	if err != nil {
		return err
	}
	axes = positive(axes, r)
	all := make([]int64, 2*r)
	for i, a := range axes {
		if a < 0 || a >= r || len(pads) != 2*len(axes) {
			return fmt.Errorf("the pads %v do not fit the axes %v of rank %d", pads, axes, r)
		}
		all[a], all[r+a] = pads[i], pads[len(axes)+i]
	}
	x.removeInput(3)
	x.setInput(1, x.vector("pads", all...))
	return nil
}

func reduceDown(x *step) error {
	noop := x.int("noop_with_empty_axes", 0) != 0
	if x.input(1) == "" {
		if noop {
			return errors.New("the older version has no attribute noop_with_empty_axes")
		}
		return nil
	}
	axes, err := x.ints(x.input(1))
	if err != nil {
		return err
	}
	if len(axes) == 0 && noop {
		return errors.New("the older version has no attribute noop_with_empty_axes")
	}
	x.drop("noop_with_empty_axes")
	if len(axes) > 0 {
		x.set("axes", axes)
	}
	x.removeInput(1)
	return nil
}

// resizeAxes states scales of some axes for all.
func resizeAxes(x *step) error {
	if err := x.ref("mode", "antialias", "axes"); err != nil {
		return err
	}
	if err := both(without("coordinate_transformation_mode", "half_pixel_symmetric"),
		without("keep_aspect_ratio_policy", "not_larger", "not_smaller"))(x); err != nil {
		return err
	}
	if x.string("mode", "nearest") == "nearest" {
		x.drop("antialias") // which nearest ignores
	}
	a := x.n.Attribute("axes")
	if a == nil {
		return nil
	}
	shape := x.s.value(x.input(0)).shape
	if shape == nil {
		_, err := x.rank(x.input(0))
		return err
	}
	axes := positive(a.Ints, int64(len(shape)))
	for _, v := range axes {
		if v < 0 || v >= int64(len(shape)) {
			return fmt.Errorf("the axes %v do not fit rank %d", a.Ints, len(shape))
		}
	}
	if x.string("coordinate_transformation_mode", "") == "tf_crop_and_resize" {
		return errors.New("version 13 has no attribute axes for a roi")
	}
	if x.input(3) != "" {
		sizes, err := x.ints(x.input(3))
		if err != nil || len(sizes) != len(axes) {
			return errors.Join(err, errors.New("version 13 has no attribute axes, and the sizes are not constant"))
		}
		all := slices.Clone(shape)
		for i, v := range axes {
			all[v] = sizes[i]
		}
		if slices.ContainsFunc(all, func(d int64) bool { return d < 0 }) {
			return fmt.Errorf("version 13 has no attribute axes, and the shape %v is not known", shape)
		}
		x.removeInput(3)
		x.setInput(3, x.vector("sizes", all...))
	} else {
		scales, err := x.floats(x.input(2))
		if err != nil || len(scales) != len(axes) {
			return errors.Join(err, errors.New("version 13 has no attribute axes, and the scales are not constant"))
		}
		all := make([]float32, len(shape))
		for i := range all {
			all[i] = 1
		}
		for i, v := range axes {
			all[v] = scales[i]
		}
		x.setInput(2, x.constant("scales", tensor.Must(tensor.New(all, len(all)))))
	}
	x.drop("axes")
	return nil
}

// resizeDown accepts what version 10 does: no roi, no sizes, and rounding down where axes grow.
func resizeDown(x *step) error {
	if err := x.ref("mode", "coordinate_transformation_mode", "nearest_mode"); err != nil {
		return err
	}
	mode := x.string("mode", "nearest")
	scales, err := x.floats(x.input(2))
	if err != nil || x.input(3) != "" {
		return errors.Join(err, errors.New("version 10 takes constant scales, not sizes"))
	}
	if c := x.string("coordinate_transformation_mode", "half_pixel"); c != "asymmetric" || mode == "cubic" {
		return fmt.Errorf("version 10 has no mode %s with coordinates %s", mode, c)
	}
	grows, shrinks := slices.ContainsFunc(scales, func(v float32) bool { return v > 1 }),
		slices.ContainsFunc(scales, func(v float32) bool { return v < 1 })
	if n := x.string("nearest_mode", "round_prefer_floor"); mode == "nearest" && (n != "floor" || shrinks) &&
		(n != "ceil" || grows) {
		return fmt.Errorf("version 10 rounds up if an axis shrinks and down if it grows, not %s for scales %v", n,
			scales)
	}
	if x.int("exclude_outside", 0) != 0 {
		return errors.New("version 10 has no attribute exclude_outside")
	}
	for _, name := range []string{"coordinate_transformation_mode", "nearest_mode", "cubic_coeff_a",
		"extrapolation_value", "exclude_outside"} {
		x.drop(name)
	}
	s := x.input(2)
	x.removeInput(1)
	x.n.Inputs = []string{x.input(0), s}
	return nil
}

// scanDown adds a batch of 1, which version 8 has in all that it reads and returns.
func scanDown(x *step) error {
	if err := x.ref("scan_input_directions"); err != nil {
		return err
	}
	for _, name := range []string{"scan_input_axes", "scan_output_axes", "scan_output_directions"} {
		if a := x.n.Attribute(name); a != nil &&
			(a.RefAttrName != "" || slices.ContainsFunc(a.Ints, func(v int64) bool { return v != 0 })) {
			return fmt.Errorf("version 8 has no attribute %s", name)
		}
		x.drop(name)
	}
	if a := x.n.Attribute("scan_input_directions"); a != nil {
		x.set("directions", append([]int64{}, a.Ints...))
		x.drop("scan_input_directions")
	}
	inputs := []string{""}
	for _, name := range x.n.Inputs {
		in, attrs := x.axes([]string{name}, 0)
		inputs = append(inputs, x.emit("Unsqueeze", name, in, attrs...))
	}
	x.n.Inputs = inputs
	for i, out := range x.n.Outputs {
		if out != "" {
			in, attrs := x.axes(nil, 0)
			x.then(i, "Squeeze", in, attrs...)
		}
	}
	return nil
}

// splitDown states parts of other sizes than the equal ones of version 13.
func splitDown(x *step) error {
	if x.input(1) != "" {
		return nil
	}
	shape := x.s.value(x.input(0)).shape
	axis := x.int("axis", 0)
	if axis < 0 {
		axis += int64(len(shape))
	}
	if axis < 0 || axis >= int64(len(shape)) || shape[axis] < 0 {
		return fmt.Errorf("the size of axis %d is unknown, and version 13 makes parts of equal size", x.int("axis", 0))
	}
	n := max(int64(len(x.n.Outputs)), 1)
	x.drop("num_outputs")
	if shape[axis]%n == 0 {
		return nil
	}
	part := (shape[axis] + n - 1) / n
	var sizes []int64
	for left := shape[axis]; int64(len(sizes)) < n; left -= part {
		sizes = append(sizes, max(0, min(part, left)))
	}
	x.setInput(1, x.vector("split", sizes...))
	return nil
}
