package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/tensor"
)

// Swish computes x·sigmoid(alpha·x) of each element
// (https://onnx.ai/onnx/operators/onnx__Swish.html).
type Swish struct {
	kit.SameTypeAndShape
	Alpha float64
	loops elementwise.Table
}

var _ = kit.Register(&kit.Def{Name: "Swish", Since: kit.Versions{24}, In: "X:T", Out: "Y:T", Types: "T: @float",
	Elementwise: true, Build: func(a *kit.Attrs, opset int) kit.Operator {
		kit.IgnoreConsumed(a, opset)
		o := &Swish{Alpha: float64(a.Float("alpha", 1))}
		o.loops = elementwise.FloatLoops(
			func(dst, src []float32) { kit.SwishLoop(dst, src, o.Alpha) },
			func(dst, src []float64) { kit.SwishLoop(dst, src, o.Alpha) },
			o.fast()).WithFast(tensor.TypeFloat64, o.doubles)
		return o
	},
	Gradient: gradient.DecomposedFunction(func(b *gradient.Builder, n *gradient.Node, x string) string {
		return b.Op("Mul", x, b.Op("Sigmoid", b.Scaled(n.Attrs.Float("alpha", 1), x)))
	})})

// Run implements [ir.Operator].
func (o *Swish) Run(c *ir.Call) error { return elementwise.MapTable(c, o.loops, kit.GrainCostly) }

// fast returns the vector kernel.
func (o *Swish) fast() kit.VecUnary {
	a := float32(o.Alpha)
	if a == 1 {
		return vec.SiluF32
	}
	return elementwise.InPieces(func(l cpu.Level, dst, x []float32) {
		vec.MulScalarF32(l, dst, x, a)
		vec.SigmoidF32(l, dst, dst)
		vec.MulF32(l, dst, dst, x)
		if far := min(a*vec.ReduceMinF32(l, x), a*vec.ReduceMaxF32(l, x)); far >= -math.MaxFloat32 {
			return
		}
		for i, v := range x {
			// If the gate is 0, the result is 0 for infinities too, instead of NaN from 0·Inf.
			if a*v < -math.MaxFloat32 && dst[i] != dst[i] {
				dst[i] = float32(math.Copysign(0, float64(v)))
			}
		}
	})
}

// doubles computes float64 with a vector kernel for the gates.
func (o *Swish) doubles(dst []byte, in *[3][]byte) {
	l, y, x := cpu.Active(), memory.FromRaw[float64](dst), memory.FromRaw[float64](in[0])
	var block [256]float64
	for len(y) > 0 {
		gates := block[:min(len(y), len(block))]
		for i, v := range x[:len(gates)] {
			gates[i] = o.Alpha * v
		}
		vec.SigmoidF64(l, gates, gates)
		for i, g := range gates {
			y[i] = kit.Gated(x[i], g)
		}
		x, y = x[len(gates):], y[len(gates):]
	}
}
