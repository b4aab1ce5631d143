package ops

import (
	"slices"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
)

// ThresholdedRelu returns elements above alpha unchanged and 0 for the others. Before opset 10 it
// was an experimental operator (https://onnx.ai/onnx/operators/onnx__ThresholdedRelu.html).
type ThresholdedRelu struct {
	kit.SameTypeAndShape
	Alpha float64
	loops elementwise.Table
}

var _ = kit.Register(&kit.Def{Name: "ThresholdedRelu", Since: kit.Versions{1, 10, 22}, In: "X:T",
	Out: "Y:T", Types: "T: @float",
	Elementwise: true, Build: func(a *kit.Attrs, opset int) kit.Operator {
		kit.IgnoreConsumed(a, opset)
		o := &ThresholdedRelu{Alpha: float64(a.Float("alpha", 1))}
		o.loops = elementwise.FloatLoops(
			func(dst, src []float32) { thresholdedReluLoop(dst, src, o.Alpha) },
			func(dst, src []float64) { thresholdedReluLoop(dst, src, o.Alpha) },
			thresholdedReluKernel(float32(o.Alpha)))
		return o
	},
	Gradient: gradient.DecomposedFunction(func(b *gradient.Builder, n *gradient.Node, x string) string {
		return b.Op("Mul", x, b.Step(0, b.Plus(x, -n.Attrs.Float("alpha", 1))))
	})})

// Run implements [ir.Operator].
func (o *ThresholdedRelu) Run(c *ir.Call) error {
	return elementwise.MapTable(c, o.loops, kit.GrainCheap)
}

func thresholdedReluLoop[T kit.FloatNumber](dst, src []T, alpha float64) {
	dst = dst[:len(src)]
	a := T(alpha)
	for i, x := range src {
		y := x
		if !(x > a) {
			y = 0
		}
		dst[i] = y
	}
}

// thresholdedReluKernel selects the elements that compare greater.
func thresholdedReluKernel(alpha float32) kit.VecUnary {
	limits, zeros := slices.Repeat([]float32{alpha}, kit.LoopBlock), make([]uint32, kit.LoopBlock)
	return func(l cpu.Level, dst, x []float32) {
		var greater [kit.LoopBlock]bool
		for lo := 0; lo < len(dst); lo += kit.LoopBlock {
			part := x[lo:min(len(dst), lo+kit.LoopBlock)]
			n := len(part)
			vec.LessF32(l, greater[:n], limits[:n], part)
			vec.SelectU32(l, bitsOf(dst[lo:lo+n]), bitsOf(part), zeros[:n], greater[:n])
		}
	}
}

func bitsOf(x []float32) []uint32 { return memory.FromRaw[uint32](memory.AsBytes(x)) }
