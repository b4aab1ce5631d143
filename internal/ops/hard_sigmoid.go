package ops

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
)

// HardSigmoid computes max(0, min(1, alpha·x+beta)) of each element
// (https://onnx.ai/onnx/operators/onnx__HardSigmoid.html).
type HardSigmoid struct {
	sameTypeAndShape
	Alpha, Beta float64
	loops       loopTable
}

var _ = register(Def{Name: "HardSigmoid", Since: []int{1, 6, 22}, In: "X:T", Out: "Y:T", Types: Types{"T": "@float"},
	Build: simple(func(a *Attrs, opset int) Operator {
		ignoreConsumed(a, opset)
		o := &HardSigmoid{Alpha: float64(a.Float("alpha", 0.2)), Beta: float64(a.Float("beta", 0.5))}
		o.loops = floatLoops(
			func(dst, src []float32) { hardSigmoidLoop(dst, src, o.Alpha, o.Beta) },
			func(dst, src []float64) { hardSigmoidLoop(dst, src, o.Alpha, o.Beta) },
			func(l cpu.Level, dst, x []float32) {
				vec.HardSigmoidF32(l, dst, x, float32(o.Alpha), float32(o.Beta))
			})
		return o
	})})

// Run implements [ir.Operator].
func (o *HardSigmoid) Run(c *ir.Call) error { return mapTable(c, o.loops, grainCheap) }

func hardSigmoidLoop[T floatNumber](dst, src []T, alpha, beta float64) {
	dst = dst[:len(src)]
	a, b := T(alpha), T(beta)
	for i, x := range src {
		dst[i] = max(0, min(1, a*x+b))
	}
}
