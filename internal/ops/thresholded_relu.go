package ops

import (
	"github.com/onward-ml/onward/internal/ir"
)

// ThresholdedRelu keeps elements above alpha and makes the others 0
// (https://onnx.ai/onnx/operators/onnx__ThresholdedRelu.html).
type ThresholdedRelu struct {
	sameTypeAndShape
	Alpha float64
	loops loopTable
}

var _ = register(Def{Name: "ThresholdedRelu", Since: []int{10, 22}, In: "X:T", Out: "Y:T", Types: Types{"T": "@float"},
	Build: simple(func(a *Attrs, opset int) Operator {
		ignoreConsumed(a, opset)
		o := &ThresholdedRelu{Alpha: float64(a.Float("alpha", 1))}
		o.loops = floatLoops(
			func(dst, src []float32) { thresholdedReluLoop(dst, src, o.Alpha) },
			func(dst, src []float64) { thresholdedReluLoop(dst, src, o.Alpha) }, nil)
		return o
	})})

// Run implements [ir.Operator].
func (o *ThresholdedRelu) Run(c *ir.Call) error { return mapTable(c, o.loops, grainCheap) }

func thresholdedReluLoop[T floatNumber](dst, src []T, alpha float64) {
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
