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
			if s.inner == 1 && !c.Generic {
				return s.eachLine(c, func(base, _ int) { vec.LogSoftmaxF32(cpu.Active(), dst[base:base+s.n], src[base:base+s.n]) })
			}
			return s.eachLine(c, func(base, m int) { logSoftmaxLines(dst, src, s, base, m) })
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
