package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/internal/ops/kit/move"
	"github.com/onward-ml/onward/tensor"
)

// Slice returns every steps-th index from starts up to but excluding ends, along the given axes.
// Negative starts and ends count from the end of the dimension, both are clamped to it, and a
// negative step runs backward (https://onnx.ai/onnx/operators/onnx__Slice.html).
type Slice struct{}

var _ = kit.Register(&kit.Def{Name: "Slice", Since: kit.Versions{1, 10, 11, 13},
	In: "data:T, starts:I, ends:I, axes:I?, steps:I?", Out: "output:T", Types: "T: @all; I: int32 int64",
	Selects: kit.Always, Build: func(a *kit.Attrs, opset int) kit.Operator {
		if opset < 10 {
			a.Require("starts", "ends")
			a.SetInputInts(1, a.Ints("starts"))
			a.SetInputInts(2, a.Ints("ends"))
			a.SetInputInts(3, a.Ints("axes"))
		}
		return &Slice{}
	},
	Gradient: gradient.Move})

// sliceRange returns the first index, the number of indices and the step for a slice of a dimension
// of size n.
func sliceRange(start, end, step, n int) (first, count, by int) {
	clamp := func(v, lo, hi int) int {
		if v < 0 {
			v += n
		}
		return min(max(v, lo), hi)
	}
	if step > 0 {
		first = clamp(start, 0, n)
		if end = clamp(end, 0, n); end > first {
			count = 1 + (end-first-1)/step
		}
		return first, count, step
	}
	step = max(step, -math.MaxInt)
	first = clamp(start, 0, n-1)
	if end = clamp(end, -1, n-1); end < first && n > 0 {
		count = 1 + (first-end-1)/-step
	}
	return first, count, step
}

// Infer implements ir.Operator.
func (op *Slice) Infer(c *ir.InferContext) error {
	for i, what := range []string{1: "starts", 2: "ends", 3: "axes", 4: "steps"} {
		if what != "" {
			if err := kit.CheckRank(c, i, 1, what); err != nil {
				return err
			}
		}
	}
	in := c.Shape(0)
	kit.SetShape(c, 0, c.Elem(0), nil)
	if in == nil {
		return nil
	}
	out := ir.UnknownDims(len(in))
	starts, ends, steps := c.Contents(1), c.Contents(2), c.Contents(4)
	axes, axesKnown := kit.KnownInts(c, 3)
	if starts == nil || ends == nil || c.Has(3) && !axesKnown || c.Has(4) && steps == nil {
		kit.SetShape(c, 0, c.Elem(0), out)
		return nil
	}
	if len(starts) != len(ends) || steps != nil && len(steps) != len(starts) {
		return fail.Errorf("starts has %d elements, ends %d and steps %d, want the same", len(starts),
			len(ends), len(steps))
	}
	axes, err := sliceAxes(axes, len(starts), len(in))
	if err != nil {
		return err
	}
	copy(out, in)
	contents := c.Contents(0)
	if len(in) != 1 {
		contents = nil
	}
	for i, a := range axes {
		step := ir.Known(1)
		if steps != nil {
			step = steps[i]
		}
		if step.Is(0) {
			return fail.Errorf("step along axis %d must not be 0", a)
		}
		out[a] = sliceDim(in[a], starts[i], ends[i], step)
		if contents != nil {
			contents = sliceContents(contents, starts[i], ends[i], step)
		}
	}
	kit.SetShape(c, 0, c.Elem(0), out)
	if contents != nil {
		c.SetContents(0, contents)
	}
	return nil
}

func sliceContents(d []ir.Dim, start, end, step ir.Dim) []ir.Dim {
	s, ok1 := start.Value()
	e, ok2 := end.Value()
	by, ok3 := step.Value()
	if !ok1 || !ok2 || !ok3 {
		return nil
	}
	first, count, by := sliceRange(s, e, by, len(d))
	r := make([]ir.Dim, count)
	for i := range r {
		r[i] = d[first+i*by]
	}
	return r
}

// sliceDim returns the size of a sliced dimension, as far as it is known. It assumes that symbolic
// sizes are not smaller than the constants that are cut off, as models with such slices do.
func sliceDim(d, start, end, step ir.Dim) ir.Dim {
	n, ok0 := d.Value()
	s, ok1 := start.Value()
	e, ok2 := end.Value()
	by, ok3 := step.Value()
	const far = 1e9 // at least as large as any dimension; tf2onnx writes it for an open end
	switch {
	case ok0 && ok1 && ok2 && ok3:
		_, count, _ := sliceRange(s, e, by, n)
		return ir.Known(count)
	case !ok3 || !ok1 || d.IsUnknown():
		return ir.Unknown
	case by < 0:
		if s == -1 && ok2 && e < -far {
			return d.Sub(ir.Known(1)).Div(ir.Known(-by)).Add(ir.Known(1))
		}
		return ir.Unknown
	}
	var length ir.Dim
	switch {
	case ok2 && e >= far && s >= 0:
		length = d.Sub(ir.Known(s))
	case ok2 && e >= far:
		length = ir.Known(-s)
	case ok2 && e < 0 && s >= 0:
		length = d.Sub(ir.Known(s - e))
	case ok2 && e < 0:
		length = ir.Known(max(0, e-s))
	case ok2 && s >= 0:
		return ir.Unknown // min(e, d) − s
	case end.Same(d) && s >= 0:
		length = d.Sub(ir.Known(s))
	case !ok2 && !end.IsUnknown() && s == 0:
		length = d.Min(end)
	}
	if by == 1 {
		return length
	}
	return length.Add(ir.Known(by - 1)).Div(ir.Known(by))
}

// Run implements ir.Operator.
func (op *Slice) Run(c *ir.Call) error {
	x := c.Tensor(0)
	shape, by, first, err := sliceBox(x.Shape(), c.Tensor(1), c.Tensor(2), c.Tensor(3), c.Tensor(4))
	if err != nil {
		return err
	}
	s := kit.Strides(x.Shape())
	from := 0
	for i := range s {
		from += first[i] * s[i]
		if shape[i] > 1 {
			s[i] *= by[i]
		}
	}
	dst, err := move.Out(c, 0, x.DType(), shape...)
	if err != nil {
		return err
	}
	src, err := move.In(c, x)
	if err != nil {
		return err
	}
	move.Strided(c, dst, src, shape, kit.Strides(shape), 0, s, from)
	dst.Done()
	return nil
}

// sliceBox returns the shape, steps and first indices of a slice.
func sliceBox(in []int, starts, ends, axes, steps *tensor.Tensor) (shape, by, first []int, err error) {
	var v [4][]int
	for i, t := range []*tensor.Tensor{starts, ends, axes, steps} {
		if v[i], err = kit.SmallInts(t, [...]string{"starts", "ends", "axes", "steps"}[i]); err != nil {
			return nil, nil, nil, err
		}
	}
	if len(v[0]) != len(v[1]) || steps != nil && len(v[3]) != len(v[0]) {
		return nil, nil, nil, fail.Errorf("starts has %d elements, ends %d and steps %d, want the same", len(v[0]),
			len(v[1]), len(v[3]))
	}
	at, err := sliceAxes(v[2], len(v[0]), len(in))
	if err != nil {
		return nil, nil, nil, err
	}
	shape = append([]int{}, in...)
	by, first = make([]int, len(in)), make([]int, len(in))
	for i := range by {
		by[i] = 1
	}
	for i, a := range at {
		step := 1
		if steps != nil {
			step = v[3][i]
		}
		if step == 0 {
			return nil, nil, nil, fail.Errorf("step along axis %d must not be 0", a)
		}
		first[a], shape[a], by[a] = sliceRange(v[0][i], v[1][i], step, in[a])
		if shape[a] == 0 {
			first[a] = 0
		}
	}
	return shape, by, first, nil
}

// sliceAxes returns axes, or the first n axes if it is nil.
func sliceAxes(axes []int, n, rank int) ([]int, error) {
	if axes == nil {
		if n > rank {
			return nil, fail.Errorf("starts has %d elements, but the input has rank %d", n, rank)
		}
		axes = make([]int, n)
		for i := range axes {
			axes[i] = i
		}
		return axes, nil
	}
	if len(axes) != n {
		return nil, fail.Errorf("starts has %d elements, axes has %d", n, len(axes))
	}
	if _, err := kit.NormalAxes(axes, rank); err != nil {
		return nil, err
	}
	r := make([]int, n)
	for i, a := range axes {
		if a < 0 {
			a += rank
		}
		r[i] = a
	}
	return r, nil
}
