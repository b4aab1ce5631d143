package reduce

import (
	"math"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
)

// SoftmaxLines computes Softmax along m adjacent lines that begin at base. It does not return if
// the run must stop.
func SoftmaxLines[T kit.FloatNumber](c *ir.Call, dst, src []T, s kit.AxisSpan, base, m int) {
	var top, sum [kit.ColumnBlock]float64
	meter := ir.Meter{C: c}
	LineMax(&meter, top[:m], src, s, base)
	for k := range s.N {
		meter.Check(kit.ExpCost * m)
		at := base + k*s.Inner
		y := dst[at : at+m]
		for j, x := range src[at : at+m] {
			e := math.Exp(float64(x) - top[j])
			sum[j] += e
			y[j] = T(e)
		}
	}
	for k := range s.N {
		meter.Check(m)
		at := base + k*s.Inner
		y := dst[at : at+m]
		for j := range y {
			y[j] = T(float64(y[j]) / sum[j])
		}
	}
}

// LineMax computes the maximum of each of len(top) lines.
func LineMax[T kit.FloatNumber](meter *ir.Meter, top []float64, src []T, s kit.AxisSpan, base int) {
	for j := range top {
		top[j] = math.Inf(-1)
	}
	for k := range s.N {
		meter.Check(len(top))
		at := base + k*s.Inner
		for j, x := range src[at : at+len(top)] {
			top[j] = max(top[j], float64(x))
		}
	}
}

// SoftmaxAxis is the axis of Softmax, LogSoftmax and Hardmax. Before opset 13 they flattened all
// dimensions from the axis on.
type SoftmaxAxis struct {
	Axis    int
	Flatten bool
}

// ReadSoftmaxAxis reads the attribute axis; before opset 13 all dimensions from it on form one
// axis.
func ReadSoftmaxAxis(a *kit.Attrs, opset int) SoftmaxAxis {
	if opset < 13 {
		return SoftmaxAxis{Axis: a.Int("axis", 1), Flatten: true}
	}
	return SoftmaxAxis{Axis: a.Int("axis", -1)}
}

// Span returns the span of the axis in a tensor of the given shape.
func (o *SoftmaxAxis) Span(shape []int) (kit.AxisSpan, error) {
	if o.Flatten && o.Axis == len(shape) {
		return kit.AxisSpan{Outer: kit.Product(shape), N: 1, Inner: 1}, nil
	}
	axis, err := kit.NormalAxis(o.Axis, len(shape))
	if err != nil {
		return kit.AxisSpan{}, err
	}
	if o.Flatten {
		return kit.AxisSpan{Outer: kit.Product(shape[:axis]), N: kit.Product(shape[axis:]), Inner: 1}, nil
	}
	return kit.SpanOf(shape, axis), nil
}

// Infer infers an output like the input and checks the axis.
func (o *SoftmaxAxis) Infer(c *ir.InferContext) error {
	if s := c.Shape(0); s != nil {
		if _, err := o.Span(make([]int, len(s))); err != nil {
			return fail.Errorf("attribute %w", err)
		}
	}
	return kit.SameAsInput(c)
}
