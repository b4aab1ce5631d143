package ops

import (
	"cmp"
	"errors"
	"math"
	"sort"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/internal/ops/kit/move"
	"github.com/onward-ml/onward/tensor"
)

// Resize changes the sizes of axes by interpolation, one axis after the other. The factors are
// given as scales or follow from sizes (https://onnx.ai/onnx/operators/onnx__Resize.html).
type Resize struct {
	Mode           string // nearest, linear or cubic
	Coordinates    string // coordinate_transformation_mode
	NearestMode    string // nearest_mode, or outward: ceil if an axis shrinks and floor if it grows
	CubicA         float32
	ExcludeOutside bool
	Extrapolation  float32
	Antialias      bool
	Axes           []int  // of roi, scales and sizes; nil: all
	KeepAspect     string // stretch, not_larger or not_smaller
	ScalesInput    int    // index of the input scales: 2, or 1 in opset 10 and for Upsample
	Truncate       bool   // truncate integers instead of rounding them, as ONNX Runtime's Upsample does
}

var _ = kit.Register(&kit.Def{Name: "Resize", Since: kit.Versions{10, 11, 13, 18, 19},
	In: "X:T1, roi:T2?, scales:float?, sizes:int64?", Out: "Y:T1",
	Types:   "T1: @number string bool @complex; T2: float16 float double",
	Selects: resizeSelects, Build: func(a *kit.Attrs, opset int) kit.Operator {
		if opset < 11 {
			return NewUpsample(a, "nearest", "linear", "bilinear")
		}
		r := &Resize{Mode: a.Enum("mode", "nearest", "nearest", "linear", "cubic"), ScalesInput: 2,
			Coordinates: a.Enum("coordinate_transformation_mode", "half_pixel", "half_pixel", "half_pixel_symmetric",
				"pytorch_half_pixel",
				"align_corners", "asymmetric", "tf_crop_and_resize", "tf_half_pixel_for_nn"),
			NearestMode: a.Enum("nearest_mode", "round_prefer_floor", "round_prefer_floor", "round_prefer_ceil",
				"floor", "ceil"),
			CubicA: a.Float("cubic_coeff_a", -0.75), ExcludeOutside: a.Bool("exclude_outside", false),
			Extrapolation: a.Float("extrapolation_value", 0), KeepAspect: "stretch"}
		if opset >= 18 {
			r.Antialias = a.Bool("antialias", false) && r.Mode != "nearest"
			r.Axes = a.Ints("axes")
			r.KeepAspect = a.Enum("keep_aspect_ratio_policy", "stretch", "stretch", "not_larger", "not_smaller")
		}
		return r
	},
	Gradient: gradient.Nearest})

// NewUpsample returns the Resize that is equivalent to Upsample and to Resize of opset 10, which do
// not define how nearest rounds. Their example in ONNX 1.5, test_resize_downsample_nearest, selects
// the next element if an axis shrinks, and ONNX Runtime selects the previous one if it grows.
func NewUpsample(a *kit.Attrs, modes ...string) *Resize {
	r := &Resize{Mode: a.Enum("mode", "nearest", modes...), Coordinates: "asymmetric", NearestMode: "outward",
		KeepAspect: "stretch", ScalesInput: 1}
	if r.Mode == "bilinear" {
		r.Mode = "linear"
	}
	return r
}

// axes returns the axes of scales and sizes.
func (r *Resize) axes(rank int) ([]int, error) {
	n := len(r.Axes)
	if r.Axes == nil {
		n = rank
	}
	axes := make([]int, n)
	seen := make([]bool, rank)
	for i := range axes {
		axes[i] = i
		if r.Axes != nil {
			var err error
			if axes[i], err = kit.NormalAxis(r.Axes[i], rank); err != nil {
				return nil, err
			}
		}
		if seen[axes[i]] {
			return nil, fail.Errorf("axis %d appears twice in %v", axes[i], r.Axes)
		}
		seen[axes[i]] = true
	}
	return axes, nil
}

// resizeSelects holds for nearest elements that are all in the image.
func resizeSelects(op kit.Operator) bool {
	r, ok := op.(*Resize)
	return ok && r.Mode == "nearest" && r.Coordinates != "tf_crop_and_resize"
}

// Infer multiplies by known scales, or takes known sizes.
func (r *Resize) Infer(c *ir.InferContext) error {
	x := c.Shape(0)
	t := ir.UnrankedTensor(c.Elem(0))
	if x == nil {
		c.SetOut(0, t)
		return nil
	}
	t.Shape = append([]ir.Dim{}, x...)
	defer func() { c.SetOut(0, t) }()
	axes, err := r.axes(len(x))
	if err != nil {
		return err
	}
	for _, a := range axes {
		t.Shape[a] = ir.Unknown
	}
	if s := c.Contents(3); len(s) > 0 && r.ScalesInput == 2 {
		if len(s) != len(axes) {
			return fail.Errorf("got %d sizes, want %d, one per axis", len(s), len(axes))
		}
		if r.KeepAspect == "stretch" {
			for i, a := range axes {
				t.Shape[a] = s[i]
			}
			return nil
		}
		sizes, ok1 := ir.Ints(s)
		shape, ok2 := ir.Ints(x)
		if ok1 && ok2 {
			out, err := r.fromSizes(shape, axes, sizes)
			if err != nil {
				return err
			}
			for i, a := range axes {
				t.Shape[a] = ir.Known(out[i].Out)
			}
		}
		return nil
	}
	if s := c.Const(r.ScalesInput); s != nil && s.Len() > 0 && s.DType() == tensor.TypeFloat32 {
		v := tensor.MustData[float32](s)
		if len(v) != len(axes) {
			return fail.Errorf("got %d scales, want %d, one per axis", len(v), len(axes))
		}
		for i, a := range axes {
			if n, ok := x[a].Value(); ok {
				out, err := resizeLen(n, v[i])
				if err != nil {
					return err
				}
				t.Shape[a] = ir.Known(out)
			} else if v[i] >= 1 && v[i] < 1<<20 && v[i] == float32(int(v[i])) {
				t.Shape[a] = x[a].Mul(ir.Known(int(v[i])))
			}
		}
	}
	return nil
}

// resizeLen returns ⌊n·scale⌋, computed in float32 as in ONNX's shape inference.
func resizeLen(n int, scale float32) (int, error) {
	if !(scale > 0) || math.IsInf(float64(scale), 0) {
		return 0, fail.Errorf("scale is %g, want a positive number", scale)
	}
	f := math.Floor(float64(float32(n) * scale))
	if f > 1<<40 {
		return 0, fail.Errorf("size %d times scale %g exceeds the limit of %d", n, scale, int64(1)<<40)
	}
	return int(f), nil
}

// fromSizes returns the scales of axes for the given sizes.
func (r *Resize) fromSizes(shape, axes, sizes []int) ([]resizeScale, error) {
	if len(sizes) != len(axes) {
		return nil, fail.Errorf("got %d sizes, want %d, one per axis", len(sizes), len(axes))
	}
	out := make([]resizeScale, len(axes))
	least, most := math.Inf(1), 0.0
	for i, a := range axes {
		switch {
		case sizes[i] < 0 || int64(sizes[i]) > 1<<40:
			return nil, fail.Errorf("size of axis %d is %d, want 0 to %d", a, sizes[i], int64(1)<<40)
		case shape[a] == 0 && sizes[i] > 0:
			return nil, fail.Errorf("axis %d is empty and cannot be resized to %d", a, sizes[i])
		case shape[a] == 0:
			out[i] = resizeScale{Scale: 1}
			continue
		}
		out[i] = resizeScale{Scale: float64(sizes[i]) / float64(shape[a]), Out: sizes[i]}
		least, most = min(least, out[i].Scale), max(most, out[i].Scale)
	}
	if r.KeepAspect == "stretch" || most == 0 {
		return out, nil
	}
	scale := least
	if r.KeepAspect == "not_smaller" {
		scale = most
	}
	for i, a := range axes {
		f := math.Floor(scale*float64(shape[a]) + 0.5)
		if f > 1<<40 {
			return nil, fail.Errorf("axis %d cannot be resized to %g elements, the limit is %d", a, f, int64(1)<<40)
		}
		out[i] = resizeScale{Scale: scale, Out: int(f)}
	}
	return out, nil
}

// scales returns the scales of all axes of the call.
func (r *Resize) scales(c *ir.Call, shape, axes []int) ([]resizeScale, error) {
	var out []resizeScale
	var err error
	if sizes := c.Tensor(3); r.ScalesInput == 2 && sizes != nil && sizes.Len() > 0 {
		out, err = r.fromSizes(shape, axes, kit.Ints(sizes))
	} else {
		out, err = fromScales(shape, axes, c.Tensor(r.ScalesInput))
	}
	if err != nil {
		return nil, err
	}
	if r.Coordinates == "tf_crop_and_resize" {
		roi := c.Tensor(1)
		if roi == nil { // the whole image, as in ONNX Runtime
			for i := range out {
				out[i].End = 1
			}
			return out, nil
		}
		if roi.Len() != 2*len(axes) {
			return nil, fail.Errorf("roi has %d elements, want %d", roi.Len(), 2*len(axes))
		}
		v, err := kit.RealIn[float64](c, roi)
		if err != nil {
			return nil, err
		}
		for i := range out {
			out[i].Start, out[i].End = v[i], v[len(axes)+i]
		}
	}
	return out, nil
}

// fromScales returns the scales of axes, with the sizes of the output.
func fromScales(shape, axes []int, scales *tensor.Tensor) ([]resizeScale, error) {
	if scales == nil {
		return nil, errors.New("both scales and sizes are absent, want one of them")
	}
	if scales.DType() != tensor.TypeFloat32 || scales.Len() != len(axes) {
		return nil, fail.Errorf("scales are %s, want %d of type float", scales, len(axes))
	}
	out := make([]resizeScale, len(axes))
	for i, s := range tensor.MustData[float32](scales) {
		n, err := resizeLen(shape[axes[i]], s)
		if err != nil {
			return nil, err
		}
		out[i] = resizeScale{Scale: float64(s), Out: n}
	}
	return out, nil
}

// NearestIndices returns the input index of each output index, for each axis of an input and an
// output with the given shapes, which are not empty. scales is nil if sizes determine the shape. It
// returns nil for other modes than nearest, and if indices depend on more.
func (r *Resize) NearestIndices(in, out []int, scales *tensor.Tensor) [][]int {
	axes, err := r.axes(len(in))
	if err != nil || r.Mode != "nearest" || r.Coordinates == "tf_crop_and_resize" || r.KeepAspect != "stretch" {
		return nil
	}
	sizes := make([]int, len(axes))
	for i, a := range axes {
		sizes[i] = out[a]
	}
	list, err := r.fromSizes(in, axes, sizes)
	if scales != nil {
		list, err = fromScales(in, axes, scales)
	}
	if err != nil {
		return nil
	}
	index := make([][]int, len(in))
	for a, n := range out {
		index[a] = make([]int, n)
		for o := range n {
			index[a][o] = o
		}
	}
	for i, a := range axes {
		if s := list[i]; s.Out != out[a] {
			return nil
		} else if !s.keeps(in[a]) {
			for o := range s.Out {
				index[a][o] = r.nearest(o, in[a], s)
			}
		}
	}
	return index
}

// OfImages returns a Resize that does the same to the axes from 2 on, and its scales or sizes, for
// images with any number of channels. out are the sizes of these axes. scales is nil if sizes
// determine the shape. It returns nil if other axes are interpolated.
func (r *Resize) OfImages(out []int, scales *tensor.Tensor) (*Resize, *tensor.Tensor) {
	axes, err := r.axes(2 + len(out))
	if err != nil || r.Coordinates == "tf_crop_and_resize" || r.KeepAspect != "stretch" ||
		scales != nil && (scales.DType() != tensor.TypeFloat32 || scales.Len() != len(axes)) {
		return nil, nil
	}
	op := *r
	op.ScalesInput, op.Axes = 2, nil
	var factors []float32
	var sizes []int64
	for i, a := range axes {
		switch {
		case scales != nil && a < 2 && tensor.MustData[float32](scales)[i] != 1:
			return nil, nil
		case a < 2:
			continue
		case scales != nil:
			factors = append(factors, tensor.MustData[float32](scales)[i])
		}
		op.Axes, sizes = append(op.Axes, a), append(sizes, int64(out[a-2]))
	}
	if scales != nil {
		return &op, tensor.Must(tensor.New(factors, len(factors)))
	}
	return &op, tensor.Must(tensor.New(sizes, len(sizes)))
}

// Run resizes one axis after the other. Integers are rounded to nearest, ties to even, unless
// Truncate is set.
func (r *Resize) Run(c *ir.Call) error {
	x := c.Tensor(0)
	shape := append([]int{}, x.Shape()...)
	axes, err := r.axes(len(shape))
	if err != nil {
		return err
	}
	scales, err := r.scales(c, shape, axes)
	if err != nil {
		return err
	}
	out := append([]int{}, shape...)
	for i, a := range axes {
		out[a] = scales[i].Out
	}
	// Check the size before allocating memory for plans.
	if _, err := tensor.ByteLen(x.DType(), out); err != nil {
		return err
	}
	var plans []resizeAxis
	if n, err := tensor.Elements(out); err == nil && n > 0 {
		for i, a := range axes {
			s := scales[i]
			if s.keeps(shape[a]) && (r.Coordinates != "tf_crop_and_resize" || s.Start == 0 && s.End == 1) {
				continue
			}
			p, err := r.plan(c, a, shape[a], s)
			if err != nil {
				return err
			}
			plans = append(plans, p)
		}
	}
	if r.Mode == "nearest" {
		return r.runNearest(c, out, plans)
	}
	// The order of the axes does not matter to the result. With the factor r of an axis and the
	// cost w of an element, an axis before another costs r₁w₁ + r₁r₂w₂, after it r₂w₂ + r₁r₂w₁: the
	// axes with the largest (1−r)/(rw) come first. Rows are resized by kernels, elements of rows
	// one by one.
	gain := func(p *resizeAxis) float64 {
		w := 1.0
		if kit.Product(shape[p.Axis+1:]) < kit.ShortRow {
			w = 10
		}
		return float64(p.In-p.Out) / (float64(p.Out) * w)
	}
	sort.SliceStable(plans, func(i, k int) bool {
		a, b := &plans[i], &plans[k]
		return cmp.Or(cmp.Compare(gain(b), gain(a)), cmp.Compare(b.Axis, a.Axis)) < 0
	})
	switch x.DType() {
	case tensor.TypeFloat32, tensor.TypeFloat16, tensor.TypeBFloat16:
		if !c.Generic {
			return resizeRun[float32](c, r, out, plans)
		}
	}
	return resizeRun[float64](c, r, out, plans)
}

func resizeRun[T kit.RealFloat](c *ir.Call, r *Resize, out []int, plans []resizeAxis) error {
	x := c.Tensor(0)
	src, err := kit.NumberIn[T](c, x)
	if err != nil {
		return err
	}
	y, err := c.Output(0, x.DType(), out...)
	if err != nil || y.Len() == 0 {
		return err
	}
	// Images, the parts before the first axis that is resized, do not depend on each other. For
	// integers, the wider numbers of a few at a time stay in the cache.
	first := x.Rank()
	for i := range plans {
		first = min(first, plans[i].Axis)
	}
	images := kit.Product(out[:first])
	from, to := len(src)/images, y.Len()/images
	step := images
	if !x.DType().IsFloat() {
		step = min(images, max(1, kit.WorkspaceCount(c, images)<<15/to))
	}
	shape := append([]int{}, x.Shape()...)
	copy(shape[:first], out)
	stages := make([][]T, len(plans)) // the results of all axes but the last
	for i := range plans[:max(0, len(plans)-1)] {
		shape[plans[i].Axis] = plans[i].Out
		n, err := tensor.Elements(shape[first:])
		if err != nil {
			return err
		}
		if stages[i], err = ir.ScratchOf[T](c, step*n); err != nil {
			return err
		}
	}
	var result []T
	direct := x.DType() == tensor.DTypeOf[T]()
	if direct {
		result = tensor.MustData[T](y)
	} else if result, err = ir.ScratchOf[T](c, step*to); err != nil {
		return err
	}
	for at := 0; at < images; at += step {
		n := min(step, images-at)
		data := src[at*from:][:n*from]
		if len(plans) == 0 {
			copy(result, data)
		}
		copy(shape[first:], x.Shape()[first:])
		for i := range plans {
			p := &plans[i]
			dst := result[:n*to]
			if i+1 < len(plans) {
				dst = stages[i][:len(stages[i])/step*n]
			}
			if err := resizeReal(c, dst, data, shape, p, T(r.Extrapolation)); err != nil {
				return err
			}
			data = dst
			shape[p.Axis] = p.Out
		}
		if !direct {
			kit.StoreRounded(c, y, at*to, result[:n*to], r.Truncate)
		}
	}
	return nil
}

// runNearest copies elements of any type.
func (r *Resize) runNearest(c *ir.Call, out []int, plans []resizeAxis) error {
	x := c.Tensor(0)
	src, err := move.In(c, x)
	if err != nil {
		return err
	}
	dst, err := move.Out(c, 0, x.DType(), out...)
	if err != nil || dst.Len() == 0 {
		return err
	}
	st := kit.Strides(x.Shape())
	maps := make([][]int, len(out))
	for d, n := range out {
		maps[d] = make([]int, n)
		for i := range maps[d] {
			maps[d][i] = i * st[d]
		}
	}
	for _, p := range plans {
		for o, i := range p.Index {
			maps[p.Axis][o] = i * st[p.Axis]
		}
	}
	from, to := move.AdjacentRun(maps)
	move.Mapped(c, dst, src, maps, from, to)
	for _, p := range plans {
		if p.Outside == nil {
			continue
		}
		value, err := numberElement(x.DType(), float64(r.Extrapolation))
		if err != nil {
			return err
		}
		inner := kit.Product(out[p.Axis+1:]) * dst.Width
		for slab := 0; slab*inner < len(dst.Raw); slab++ {
			if p.Outside[slab%p.Out] {
				row := dst.Raw[slab*inner:][:inner]
				for i := 0; i < len(row); i += len(value) {
					copy(row[i:], value)
				}
			}
		}
	}
	dst.Done()
	return c.Err()
}

// numberElement returns the bytes of an element of a numeric type.
func numberElement(d tensor.DType, v float64) ([]byte, error) {
	t, err := tensor.Zeros(d, 1)
	switch {
	case err != nil:
		return nil, err
	case d == tensor.TypeBool:
		t.Bytes()[0] = 0
		if v != 0 {
			t.Bytes()[0] = 1
		}
	case d == tensor.TypeComplex64:
		memory.FromRaw[float32](t.Bytes())[0] = float32(v)
	case d == tensor.TypeComplex128:
		memory.FromRaw[float64](t.Bytes())[0] = v
	case d == tensor.TypeString:
		return nil, errors.New("extrapolation of strings is not supported")
	default:
		kit.RealOutput[float64]{Data: []float64{v}, T: t}.StoreNumber(false)
		if d == tensor.TypeFloat64 {
			memory.FromRaw[float64](t.Bytes())[0] = v
		}
	}
	return t.Bytes(), nil
}
