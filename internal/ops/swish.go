package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
)

// Swish computes x·sigmoid(alpha·x) of each element
// (https://onnx.ai/onnx/operators/onnx__Swish.html).
type Swish struct {
	sameTypeAndShape
	Alpha float64
}

var _ = register(Def{Name: "Swish", Since: []int{24}, In: "X:T", Out: "Y:T", Types: Types{"T": "@float"},
	Build: simple(func(a *Attrs, opset int) Operator {
		ignoreConsumed(a, opset)
		return &Swish{Alpha: float64(a.Float("alpha", 1))}
	})})

// Run implements [ir.Operator].
func (o *Swish) Run(c *ir.Call) error {
	return mapFloats(c, grainCostly,
		func(dst, src []float32) { swishLoop(dst, src, o.Alpha) },
		func(dst, src []float64) { swishLoop(dst, src, o.Alpha) })
}

func swishLoop[T floatNumber](dst, src []T, alpha float64) {
	dst = dst[:len(src)]
	for i, x := range src {
		v := float64(x)
		dst[i] = T(v / (1 + math.Exp(-alpha*v)))
	}
}
