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

// HardSigmoid computes max(0, min(1, alpha·x+beta)) of each element
// (https://onnx.ai/onnx/operators/onnx__HardSigmoid.html).
type HardSigmoid struct {
	kit.SameTypeAndShape
	Alpha, Beta float64
	loops       elementwise.Table
}

var _ = kit.Register(&kit.Def{Name: "HardSigmoid", Since: kit.Versions{1, 6, 22}, In: "X:T",
	Out: "Y:T", Types: "T: @float",
	Elementwise: true, Vector: hardSigmoidVector, Build: func(a *kit.Attrs, opset int) kit.Operator {
		kit.IgnoreConsumed(a, opset)
		return NewHardSigmoid(float64(a.Float("alpha", 0.2)), float64(a.Float("beta", 0.5)))
	},
	Gradient: gradient.DecomposedFunction(func(b *gradient.Builder, n *gradient.Node, x string) string {
		return b.Clamped(x, n.Attrs.Float("alpha", 0.2), n.Attrs.Float("beta", 0.5))
	})})

// NewHardSigmoid returns the operator with the given attributes.
func NewHardSigmoid(alpha, beta float64) *HardSigmoid {
	o := &HardSigmoid{Alpha: alpha, Beta: beta}
	o.loops = elementwise.FloatLoops(
		func(dst, src []float32) { hardSigmoidLoop(dst, src, o.Alpha, o.Beta) },
		func(dst, src []float64) { hardSigmoidLoop(dst, src, o.Alpha, o.Beta) },
		o.vector)
	return o
}

func (o *HardSigmoid) vector(l cpu.Level, dst, x []float32) {
	vec.HardSigmoidF32(l, dst, x, float32(o.Alpha), float32(o.Beta))
}

func hardSigmoidVector(op kit.Operator, _ []*tensor.Tensor) kit.VecUnary {
	if o, ok := op.(*HardSigmoid); ok {
		return o.vector
	}
	return nil
}

// Run implements [ir.Operator].
func (o *HardSigmoid) Run(c *ir.Call) error { return elementwise.MapTable(c, o.loops, kit.GrainCheap) }

func hardSigmoidLoop[T kit.FloatNumber](dst, src []T, alpha, beta float64) {
	dst = dst[:len(src)]
	a, b := T(alpha), T(beta)
	for i, x := range src {
		dst[i] = max(0, min(1, a*x+b))
	}
}
