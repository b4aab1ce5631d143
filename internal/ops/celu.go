package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
)

// Celu computes max(0, x) + min(0, alpha·(exp(x/alpha)−1)) of each element
// (https://onnx.ai/onnx/operators/onnx__Celu.html).
type Celu struct {
	sameTypeAndShape
	Alpha float64
	loops loopTable
}

var _ = register(Def{Name: "Celu", Since: []int{12, 28}, In: "X:T", Out: "Y:T", Types: Types{"T": "@float"},
	Build: simple(func(a *Attrs, opset int) Operator {
		ignoreConsumed(a, opset)
		o := &Celu{Alpha: float64(a.Float("alpha", 1))}
		o.loops = floatLoops(
			func(dst, src []float32) { celuLoop(dst, src, o.Alpha) },
			func(dst, src []float64) { celuLoop(dst, src, o.Alpha) }, o.fast())
		return o
	})})

// Run implements [ir.Operator].
func (o *Celu) Run(c *ir.Call) error { return mapTable(c, o.loops, grainCostly) }

// fast returns the vector kernel, alpha·elu(x/alpha), for an alpha with which
// that does not leave the range of float32.
func (o *Celu) fast() vecUnary {
	if !(o.Alpha >= 1e-2 && o.Alpha <= 1e2) {
		return nil
	}
	alpha := float32(o.Alpha)
	return inPieces(func(l cpu.Level, dst, x []float32) {
		vec.DivScalarF32(l, dst, x, alpha)
		vec.EluF32(l, dst, dst, 1)
		vec.MulScalarF32(l, dst, dst, alpha)
	})
}

func celuLoop[T floatNumber](dst, src []T, alpha float64) {
	dst = dst[:len(src)]
	for i, x := range src {
		v := float64(x)
		dst[i] = T(max(0, v) + min(0, alpha*math.Expm1(v/alpha)))
	}
}
