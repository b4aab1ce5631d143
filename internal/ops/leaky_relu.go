package ops

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/tensor"
)

// LeakyRelu computes x where x ≥ 0 and alpha·x elsewhere
// (https://onnx.ai/onnx/operators/onnx__LeakyRelu.html).
type LeakyRelu struct {
	kit.SameTypeAndShape
	Alpha float64
	loops elementwise.Table
}

var _ = kit.Register(&kit.Def{Name: "LeakyRelu", Since: kit.Versions{1, 6, 16}, In: "X:T",
	Out: "Y:T", Types: "T: @float",
	Elementwise: true, Vector: leakyReluVector, Build: func(a *kit.Attrs, opset int) kit.Operator {
		kit.IgnoreConsumed(a, opset)
		o := &LeakyRelu{Alpha: float64(a.Float("alpha", 0.01))}
		o.loops = elementwise.FloatLoops(
			func(dst, src []float32) { leakyReluLoop(dst, src, o.Alpha) },
			func(dst, src []float64) { leakyReluLoop(dst, src, o.Alpha) },
			leakyReluVector(o, nil))
		return o
	},
	Gradient: gradient.Rule(func(b *gradient.Builder, n *gradient.Node, g string) ([]string, error) {
		return n.First(b.Op("Mul", g, b.Step(n.Attrs.Float("alpha", 0.01), n.Inputs[0]))), nil
	})})

func leakyReluVector(op kit.Operator, _ []*tensor.Tensor) kit.VecUnary {
	o, ok := op.(*LeakyRelu)
	if !ok {
		return nil
	}
	return func(l cpu.Level, dst, x []float32) { vec.LeakyReluF32(l, dst, x, float32(o.Alpha)) }
}

// Run implements [ir.Operator].
func (o *LeakyRelu) Run(c *ir.Call) error { return elementwise.MapTable(c, o.loops, kit.GrainCheap) }

func leakyReluLoop[T kit.FloatNumber](dst, src []T, alpha float64) {
	dst = dst[:len(src)]
	a := T(alpha)
	for i, x := range src {
		y := x
		if x < 0 {
			y = a * x
		}
		dst[i] = y
	}
}
