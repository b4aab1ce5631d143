package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/internal/ops/kit/reduce"
)

// LogSoftmax returns the logarithm of [Softmax] along an axis
// (https://onnx.ai/onnx/operators/onnx__LogSoftmax.html).
type LogSoftmax struct{ reduce.SoftmaxAxis }

var _ = kit.Register(&kit.Def{Name: "LogSoftmax", Since: kit.Versions{1, 11, 13}, In: "input:T", Out: "output:T",
	Types: "T: @float",
	Work:  4,
	Build: func(a *kit.Attrs, opset int) kit.Operator { return &LogSoftmax{reduce.ReadSoftmaxAxis(a, opset)} },
	Gradient: gradient.Rule(func(b *gradient.Builder, n *gradient.Node, g string) ([]string, error) {
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
			if c.Generic {
				s.LaunchLines(c, func(base, m int) { logSoftmaxLines(c, dst, src, s, base, m) })
				return nil
			}
			return logSoftmaxF32.launch(c, dst, src, s, logSoftmaxRows(c), logSoftmaxF32.columns)
		},
		func(dst, src []float64) error {
			if c.Generic {
				return s.EachLine(c, func(base, m int) { logSoftmaxLines(c, dst, src, s, base, m) })
			}
			return logSoftmaxF64.launch(c, dst, src, s, doubleRows(c, &logSoftmaxF64), logSoftmaxF64.columns)
		})
}

// logSoftmaxRows returns a kernel for rows. Within a long row, it checks the context.
func logSoftmaxRows(c *ir.Call) func(dst, src []float32, n int) {
	return func(dst, src []float32, n int) {
		level := cpu.Active()
		if n <= 4*ir.GrainWatch {
			vec.LogSoftmaxRowsF32(level, dst, src, n)
			return
		}
		for at := 0; at < len(dst); at += n {
			y, x := dst[at:at+n], src[at:at+n]
			top, sum := vec.ReduceMaxF32(level, x), 0.0
			for lo, hi := range ir.Steps(c, n) {
				sum += float64(vec.ExpSubSumF32(level, y[lo:hi], x[lo:hi], top))
			}
			c.Check()
			vec.SubScalarF32(level, y, x, top)
			vec.SubScalarF32(level, y, y, float32(math.Log(sum)))
		}
	}
}

func logSoftmaxLines[T kit.FloatNumber](c *ir.Call, dst, src []T, s kit.AxisSpan, base, m int) {
	var top, sum [kit.ColumnBlock]float64
	meter := ir.Meter{C: c}
	reduce.LineMax(&meter, top[:m], src, s, base)
	for k := range s.N {
		meter.Check(kit.ExpCost * m)
		at := base + k*s.Inner
		for j, x := range src[at : at+m] {
			sum[j] += math.Exp(float64(x) - top[j])
		}
	}
	for j := range m {
		sum[j] = math.Log(sum[j])
	}
	for k := range s.N {
		meter.Check(m)
		at := base + k*s.Inner
		y := dst[at : at+m]
		for j, x := range src[at : at+m] {
			y[j] = T(float64(x) - top[j] - sum[j])
		}
	}
}
