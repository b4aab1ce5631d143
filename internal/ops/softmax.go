package ops

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/internal/ops/kit/reduce"
)

// Softmax returns exp(x) / Σ exp(x) along an axis
// (https://onnx.ai/onnx/operators/onnx__Softmax.html).
type Softmax struct{ reduce.SoftmaxAxis }

var _ = kit.Register(&kit.Def{Name: "Softmax", Since: kit.Versions{1, 11, 13}, In: "input:T", Out: "output:T",
	Types: "T: @float",
	Work:  4,
	Build: func(a *kit.Attrs, opset int) kit.Operator { return &Softmax{reduce.ReadSoftmaxAxis(a, opset)} },
	Gradient: gradient.Rule(func(b *gradient.Builder, n *gradient.Node, g string) ([]string, error) {
		y := n.Outputs[0]
		return []string{b.Op("Mul", y, b.Op("Sub", g, b.SumAlong(n, b.Op("Mul", g, y))))}, nil
	})})

// Run implements [ir.Operator].
func (o *Softmax) Run(c *ir.Call) error {
	s, err := o.Span(c.Tensor(0).Shape())
	if err != nil {
		return err
	}
	return kit.RunWide(c,
		func(dst, src []float32) error {
			if c.Generic {
				s.LaunchLines(c, func(base, m int) { reduce.SoftmaxLines(c, dst, src, s, base, m) })
				return nil
			}
			return softmaxF32.launch(c, dst, src, s, SoftmaxRows(c), softmaxF32.columns)
		},
		func(dst, src []float64) error {
			if c.Generic {
				return s.EachLine(c, func(base, m int) { reduce.SoftmaxLines(c, dst, src, s, base, m) })
			}
			return softmaxF64.launch(c, dst, src, s, doubleRows(c, &softmaxF64), softmaxF64.columns)
		})
}

// SoftmaxRows returns a kernel for rows of n elements, where dst may be src. Within a long row, it
// checks the context.
func SoftmaxRows(c *ir.Call) func(dst, src []float32, n int) {
	return func(dst, src []float32, n int) {
		level := cpu.Active()
		if n <= 4*ir.GrainWatch {
			vec.SoftmaxRowsF32(level, dst, src, n)
			return
		}
		for at := 0; at < len(dst); at += n {
			y, x := dst[at:at+n], src[at:at+n]
			top, sum := vec.ReduceMaxF32(level, x), 0.0
			for lo, hi := range ir.Steps(c, n) {
				sum += float64(vec.ExpSubSumF32(level, y[lo:hi], x[lo:hi], top))
			}
			c.Check()
			vec.MulScalarF32(level, y, y, float32(1/sum))
		}
	}
}
