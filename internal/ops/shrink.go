package ops

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
)

// Shrink moves elements toward 0 by bias and sets those in [−lambd, lambd] to 0. Integers are
// computed in float64 and truncated (https://onnx.ai/onnx/operators/onnx__Shrink.html).
type Shrink struct {
	kit.SameTypeAndShape
	Bias, Lambd float64
	loops       elementwise.Table
}

var _ = kit.Register(&kit.Def{Name: "Shrink", Since: kit.Versions{9}, In: "input:T", Out: "output:T",
	Types:       "T: @int float16 float double",
	Elementwise: true, Build: func(a *kit.Attrs, opset int) kit.Operator {
		o := &Shrink{Bias: float64(a.Float("bias", 0)), Lambd: float64(a.Float("lambd", 0.5))}
		o.loops = elementwise.LoopsOf(
			shrinkLoop[int8](o), shrinkLoop[int16](o), shrinkLoop[int32](o), shrinkLoop[int64](o),
			shrinkLoop[uint8](o), shrinkLoop[uint16](o), shrinkLoop[uint32](o), shrinkLoop[uint64](o),
			elementwise.WithUnary(shrinkLoop[float32](o), o.fast()), shrinkLoop[float64](o))
		return o
	},
	Gradient: gradient.DecomposedFunction(func(b *gradient.Builder, n *gradient.Node, x string) string {
		bias, lambd := n.Attrs.Float("bias", 0), n.Attrs.Float("lambd", 0.5)
		above, below := b.Step(0, b.Plus(x, -lambd)), b.Step(0, b.Op("Neg", b.Plus(x, lambd)))
		return b.Op("Add", b.Op("Mul", b.Plus(x, -bias), above), b.Op("Mul", b.Plus(x, bias), below))
	})})

// Run implements [ir.Operator].
func (o *Shrink) Run(c *ir.Call) error { return elementwise.MapTable(c, o.loops, kit.GrainCheap) }

func shrinkLoop[T kit.RealNumber](o *Shrink) *elementwise.Loop {
	bias, lambd := o.Bias, o.Lambd
	return elementwise.Loop1(func(dst, src []T) {
		dst = dst[:len(src)]
		for i, x := range src {
			switch v := float64(x); {
			case v < -lambd: // before the other, which may hold too if lambd is negative
				dst[i] = T(v + bias)
			case v > lambd:
				dst[i] = T(v - bias)
			default:
				dst[i] = 0
			}
		}
	})
}

// fast returns the function for float32, nil if lambd is negative: both sides then overlap.
func (o *Shrink) fast() kit.VecUnary {
	if o.Lambd < 0 {
		return nil
	}
	bias := float32(o.Bias)
	var limits, zeros [kit.LoopBlock]float32
	kit.RepeatOf(limits[:], float32(o.Lambd))
	return func(l cpu.Level, dst, x []float32) {
		var toward [kit.LoopBlock]float32
		var far [kit.LoopBlock]bool
		for len(dst) > 0 {
			n := min(len(dst), kit.LoopBlock)
			t := toward[:n]
			vec.AbsF32(l, t, x[:n])
			vec.LessF32(l, far[:n], limits[:n], t)
			if y := x[:n]; bias != 0 {
				vec.SignF32(l, t, y)
				vec.MulScalarF32(l, t, t, bias)
				vec.SubF32(l, t, y, t)
			} else {
				copy(t, y)
			}
			vec.SelectU32(l, bitsOf(dst[:n]), bitsOf(t), bitsOf(zeros[:n]), far[:n])
			dst, x = dst[n:], x[n:]
		}
	}
}
