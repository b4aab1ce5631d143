package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
)

// Swish computes x·sigmoid(alpha·x) of each element
// (https://onnx.ai/onnx/operators/onnx__Swish.html).
type Swish struct {
	sameTypeAndShape
	Alpha float64
	loops loopTable
}

var _ = register(Def{Name: "Swish", Since: []int{24}, In: "X:T", Out: "Y:T", Types: Types{"T": "@float"},
	Build: simple(func(a *Attrs, opset int) Operator {
		ignoreConsumed(a, opset)
		o := &Swish{Alpha: float64(a.Float("alpha", 1))}
		o.loops = floatLoops(
			func(dst, src []float32) { swishLoop(dst, src, o.Alpha) },
			func(dst, src []float64) { swishLoop(dst, src, o.Alpha) }, o.fast())
		return o
	})})

// Run implements [ir.Operator].
func (o *Swish) Run(c *ir.Call) error { return mapTable(c, o.loops, grainCostly) }

// fast returns the vector kernel.
func (o *Swish) fast() vecUnary {
	a := float32(o.Alpha)
	if a == 1 {
		return vec.SiluF32
	}
	return inPieces(func(l cpu.Level, dst, x []float32) {
		vec.MulScalarF32(l, dst, x, a)
		vec.SigmoidF32(l, dst, dst)
		vec.MulF32(l, dst, dst, x)
		for i, v := range x {
			// A gate of 0 closes for infinities too; that of 0·Inf is NaN.
			if a*v < -math.MaxFloat32 && dst[i] != dst[i] {
				dst[i] = float32(math.Copysign(0, float64(v)))
			}
		}
	})
}

func swishLoop[T floatNumber](dst, src []T, alpha float64) {
	dst = dst[:len(src)]
	for i, x := range src {
		v := float64(x)
		dst[i] = T(gated(v, 1/(1+math.Exp(-alpha*v))))
	}
}
