package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
)

// Shrink moves elements toward 0 by bias and sets those in [−lambd, lambd] to 0. Integers are
// computed in float64 and truncated (https://onnx.ai/onnx/operators/onnx__Shrink.html).
type Shrink struct {
	kit.SameTypeAndShape
	Bias, Lambd float64
	loops       kit.LoopTable
}

var _ = kit.Register(&kit.Def{Name: "Shrink", Since: kit.Versions{9}, In: "input:T", Out: "output:T", Types: "T: @int float16 float double",
	Elementwise: true, Build: func(a *kit.Attrs, opset int) kit.Operator {
		o := &Shrink{Bias: float64(a.Float("bias", 0)), Lambd: float64(a.Float("lambd", 0.5))}
		o.loops = kit.LoopsOf(
			shrinkLoop[int8](o), shrinkLoop[int16](o), shrinkLoop[int32](o), shrinkLoop[int64](o),
			shrinkLoop[uint8](o), shrinkLoop[uint16](o), shrinkLoop[uint32](o), shrinkLoop[uint64](o),
			shrinkLoop[float32](o), shrinkLoop[float64](o))
		return o
	},
	Gradient: kit.DecomposedFunction(func(b *kit.GradientBuilder, n *kit.GradientNode, x string) string {
		bias, lambd := n.Attrs.Float("bias", 0), n.Attrs.Float("lambd", 0.5)
		above, below := b.Step(0, b.Plus(x, -lambd)), b.Step(0, b.Op("Neg", b.Plus(x, lambd)))
		return b.Op("Add", b.Op("Mul", b.Plus(x, -bias), above), b.Op("Mul", b.Plus(x, bias), below))
	})})

// Run implements [ir.Operator].
func (o *Shrink) Run(c *ir.Call) error { return kit.MapTable(c, o.loops, kit.GrainCheap) }

func shrinkLoop[T kit.RealNumber](o *Shrink) *kit.ElementLoop {
	bias, lambd := o.Bias, o.Lambd
	return kit.Loop1(func(dst, src []T) {
		dst = dst[:len(src)]
		if y, ok := any(dst).([]float32); ok && lambd >= 0 {
			shrinkFloats(y, any(src).([]float32), float32(bias), float32(lambd)) // which hold float32 numbers
			return
		}
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

// shrinkFloats is the loop for float32. It does not branch on the elements, whose sizes are hard to predict.
func shrinkFloats(dst, src []float32, bias, lambd float32) {
	const sign = 1 << 31
	toward := math.Float32bits(bias)
	dst = dst[:len(src)]
	for i, v := range src {
		b, far := math.Float32bits(v), uint32(0)
		if math.Float32frombits(b&^sign) > lambd {
			far = 1
		}
		dst[i] = math.Float32frombits(math.Float32bits(v-math.Float32frombits(toward^b&sign)) & -far)
	}
}
