package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
)

// LogSoftmax returns the logarithm of [Softmax] along an axis
// (https://onnx.ai/onnx/operators/onnx__LogSoftmax.html).
type LogSoftmax struct{ kit.SoftmaxAxis }

var _ = kit.Register(kit.Def{Name: "LogSoftmax", Since: []int{1, 11, 13}, In: "input:T", Out: "output:T", Types: kit.Types{"T": "@float"},
	Build: kit.Simple(func(a *kit.Attrs, opset int) kit.Operator { return &LogSoftmax{kit.ReadSoftmaxAxis(a, opset)} }),
	Gradient: kit.GradientRule(func(b *kit.GradientBuilder, n *kit.GradientNode, g string) ([]string, error) {
		return []string{b.Op("Sub", g, b.Op("Mul", b.Op("Exp", n.Outputs[0]), b.SumAlong(n, g)))}, nil
	})})

// Run implements [ir.Operator].
func (o *LogSoftmax) Run(c *ir.Call) error {
	s, err := o.Span(c.Tensor(0).Shape())
	if err != nil {
		return err
	}
	return kit.RunWide(c,
		func(dst, src []float32) error {
			switch {
			case c.Generic:
				s.LaunchLines(c, func(base, m int) { logSoftmaxLines(dst, src, s, base, m) })
			case s.Inner == 1:
				s.LaunchRows(c, dst, src, func(dst, src []float32, n int) { vec.LogSoftmaxRowsF32(cpu.Active(), dst, src, n) })
			default:
				s.LaunchLines(c, func(base, m int) { logSoftmaxColumns(dst, src, s, base, m) })
			}
			return nil
		},
		func(dst, src []float64) error {
			return s.EachLine(c, func(base, m int) { logSoftmaxLines(dst, src, s, base, m) })
		})
}

func logSoftmaxLines[T kit.FloatNumber](dst, src []T, s kit.AxisSpan, base, m int) {
	var top, sum [kit.ColumnBlock]float64
	kit.LineMax(top[:m], src, s, base)
	for k := range s.N {
		at := base + k*s.Inner
		for j, x := range src[at : at+m] {
			sum[j] += math.Exp(float64(x) - top[j])
		}
	}
	for j := range m {
		sum[j] = math.Log(sum[j])
	}
	for k := range s.N {
		at := base + k*s.Inner
		y := dst[at : at+m]
		for j, x := range src[at : at+m] {
			y[j] = T(float64(x) - top[j] - sum[j])
		}
	}
}

// logSoftmaxColumns is logSoftmaxLines with vector kernels over adjacent lines.
func logSoftmaxColumns(dst, src []float32, s kit.AxisSpan, base, m int) {
	level := cpu.Active()
	var topBuf, sumBuf, expBuf [kit.ColumnBlock]float32
	top, sum, exp := topBuf[:m], sumBuf[:m], expBuf[:m]
	copy(top, src[base:base+m])
	for k := 1; k < s.N; k++ {
		at := base + k*s.Inner
		vec.MaxF32(level, top, top, src[at:at+m])
	}
	for k := range s.N {
		at := base + k*s.Inner
		y := dst[at : at+m]
		vec.SubF32(level, y, src[at:at+m], top)
		vec.ExpF32(level, exp, y)
		vec.AddF32(level, sum, sum, exp)
	}
	vec.LogF32(level, sum, sum)
	for k := range s.N {
		at := base + k*s.Inner
		vec.SubF32(level, dst[at:at+m], dst[at:at+m], sum)
	}
}
