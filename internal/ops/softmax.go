package ops

import (
	"fmt"
	"math"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
)

// Softmax makes the elements along an axis exponentials that add up to 1
// (https://onnx.ai/onnx/operators/onnx__Softmax.html).
type Softmax struct{ softmaxAxis }

var _ = register(Def{Name: "Softmax", Since: []int{1, 11, 13}, In: "input:T", Out: "output:T", Types: Types{"T": "@float"},
	Build: simple(func(a *Attrs, opset int) Operator { return &Softmax{readSoftmaxAxis(a, opset)} })})

// Run implements [ir.Operator].
func (o *Softmax) Run(c *ir.Call) error {
	s, err := o.span(c.Tensor(0).Shape())
	if err != nil {
		return err
	}
	return runWide(c,
		func(dst, src []float32) error {
			switch {
			case c.Generic:
				s.launchLines(c, func(base, m int) { softmaxLines(dst, src, s, base, m) })
			case s.inner == 1:
				s.launchRows(c, dst, src, softmaxRows)
			default:
				s.launchLines(c, func(base, m int) { softmaxColumns(dst, src, s, base, m) })
			}
			return nil
		},
		func(dst, src []float64) error {
			return s.eachLine(c, func(base, m int) { softmaxLines(dst, src, s, base, m) })
		})
}

func softmaxRows(dst, src []float32, n int) { vec.SoftmaxRowsF32(cpu.Active(), dst, src, n) }

func softmaxLines[T floatNumber](dst, src []T, s axisSpan, base, m int) {
	var top, sum [columnBlock]float64
	lineMax(top[:m], src, s, base)
	for k := range s.n {
		at := base + k*s.inner
		y := dst[at : at+m]
		for j, x := range src[at : at+m] {
			e := math.Exp(float64(x) - top[j])
			sum[j] += e
			y[j] = T(e)
		}
	}
	for k := range s.n {
		at := base + k*s.inner
		y := dst[at : at+m]
		for j := range y {
			y[j] = T(float64(y[j]) / sum[j])
		}
	}
}

// softmaxColumns is softmaxLines with vector kernels over neighbouring lines.
func softmaxColumns(dst, src []float32, s axisSpan, base, m int) {
	level := cpu.Active()
	var topBuf, sumBuf [columnBlock]float32
	top, sum := topBuf[:m], sumBuf[:m]
	copy(top, src[base:base+m])
	for k := 1; k < s.n; k++ {
		at := base + k*s.inner
		vec.MaxF32(level, top, top, src[at:at+m])
	}
	for k := range s.n {
		at := base + k*s.inner
		y := dst[at : at+m]
		vec.SubF32(level, y, src[at:at+m], top)
		vec.ExpF32(level, y, y)
		vec.AddF32(level, sum, sum, y)
	}
	for k := range s.n {
		at := base + k*s.inner
		vec.DivF32(level, dst[at:at+m], dst[at:at+m], sum)
	}
}

// lineMax finds the greatest element of each of len(top) lines.
func lineMax[T floatNumber](top []float64, src []T, s axisSpan, base int) {
	for j := range top {
		top[j] = math.Inf(-1)
	}
	for k := range s.n {
		at := base + k*s.inner
		for j, x := range src[at : at+len(top)] {
			top[j] = max(top[j], float64(x))
		}
	}
}

// softmaxAxis is the axis of Softmax, LogSoftmax and Hardmax. Before opset 13
// they worked on all dimensions from the axis on as on one.
type softmaxAxis struct {
	Axis    int
	Flatten bool
}

func readSoftmaxAxis(a *Attrs, opset int) softmaxAxis {
	if opset < 13 {
		return softmaxAxis{Axis: a.Int("axis", 1), Flatten: true}
	}
	return softmaxAxis{Axis: a.Int("axis", -1)}
}

func (o *softmaxAxis) span(shape []int) (axisSpan, error) {
	if o.Flatten && o.Axis == len(shape) {
		return axisSpan{product(shape), 1, 1}, nil
	}
	axis, err := normalAxis(o.Axis, len(shape))
	if err != nil {
		return axisSpan{}, err
	}
	if o.Flatten {
		return axisSpan{product(shape[:axis]), product(shape[axis:]), 1}, nil
	}
	return spanOf(shape, axis), nil
}

// Infer infers one output like the input and checks the axis.
func (o *softmaxAxis) Infer(c *ir.InferContext) error {
	if s := c.Shape(0); s != nil {
		if _, err := o.span(make([]int, len(s))); err != nil {
			return fmt.Errorf("attribute %w", err)
		}
	}
	return sameAsInput(c)
}
