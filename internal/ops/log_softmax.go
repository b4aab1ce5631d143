package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
)

// LogSoftmax computes the logarithm of [Softmax] along an axis
// (https://onnx.ai/onnx/operators/onnx__LogSoftmax.html).
type LogSoftmax struct{ softmaxAxis }

var _ = register(Def{Name: "LogSoftmax", Since: []int{1, 11, 13}, In: "input:T", Out: "output:T", Types: Types{"T": "@float"},
	Build: simple(func(a *Attrs, opset int) Operator { return &LogSoftmax{readSoftmaxAxis(a, opset)} })})

// Run implements [ir.Operator].
func (o *LogSoftmax) Run(c *ir.Call) error {
	s, err := o.span(c.Tensor(0).Shape())
	if err != nil {
		return err
	}
	return runWide(c,
		func(dst, src []float32) error {
			switch {
			case c.Generic:
				s.launchLines(c, func(base, m int) { logSoftmaxLines(dst, src, s, base, m) })
			case s.inner == 1:
				s.launchRows(c, dst, src, func(dst, src []float32, n int) { vec.LogSoftmaxRowsF32(cpu.Active(), dst, src, n) })
			default:
				s.launchLines(c, func(base, m int) { logSoftmaxColumns(dst, src, s, base, m) })
			}
			return nil
		},
		func(dst, src []float64) error {
			return s.eachLine(c, func(base, m int) { logSoftmaxLines(dst, src, s, base, m) })
		})
}

func logSoftmaxLines[T floatNumber](dst, src []T, s axisSpan, base, m int) {
	var top, sum [columnBlock]float64
	lineMax(top[:m], src, s, base)
	for k := range s.n {
		at := base + k*s.inner
		for j, x := range src[at : at+m] {
			sum[j] += math.Exp(float64(x) - top[j])
		}
	}
	for j := range m {
		sum[j] = math.Log(sum[j])
	}
	for k := range s.n {
		at := base + k*s.inner
		y := dst[at : at+m]
		for j, x := range src[at : at+m] {
			y[j] = T(float64(x) - top[j] - sum[j])
		}
	}
}

// logSoftmaxColumns is logSoftmaxLines with vector kernels over neighbouring
// lines.
func logSoftmaxColumns(dst, src []float32, s axisSpan, base, m int) {
	level := cpu.Active()
	var topBuf, sumBuf, expBuf [columnBlock]float32
	top, sum, exp := topBuf[:m], sumBuf[:m], expBuf[:m]
	copy(top, src[base:base+m])
	for k := 1; k < s.n; k++ {
		at := base + k*s.inner
		vec.MaxF32(level, top, top, src[at:at+m])
	}
	for k := range s.n {
		at := base + k*s.inner
		y := dst[at : at+m]
		vec.SubF32(level, y, src[at:at+m], top)
		vec.ExpF32(level, exp, y)
		vec.AddF32(level, sum, sum, exp)
	}
	vec.LogF32(level, sum, sum)
	for k := range s.n {
		at := base + k*s.inner
		vec.SubF32(level, dst[at:at+m], dst[at:at+m], sum)
	}
}
