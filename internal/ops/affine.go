package ops

import "github.com/onward-ml/onward/internal/ir"

// Affine computes alpha·x + beta of each element. It is one of the experimental
// operators that ONNX removed with opset 10
// (https://github.com/onnx/onnx/blob/v1.4.1/docs/Operators.md#Affine).
type Affine struct {
	sameTypeAndShape
	Alpha, Beta float64
	loops       loopTable
}

var _ = register(Def{Name: "Affine", Since: []int{1}, Until: 9, Successor: "Mul and Add", In: "X:T", Out: "Y:T", Types: Types{"T": "float16 float double"},
	Build: simple(func(a *Attrs, opset int) Operator {
		return newAffine(float64(a.Float("alpha", 1)), float64(a.Float("beta", 0)))
	})})

func newAffine(alpha, beta float64) *Affine {
	o := &Affine{Alpha: alpha, Beta: beta}
	o.loops = floatLoops(
		func(dst, src []float32) { affineLoop(dst, src, alpha, beta) },
		func(dst, src []float64) { affineLoop(dst, src, alpha, beta) }, nil)
	return o
}

// Run implements [ir.Operator].
func (o *Affine) Run(c *ir.Call) error { return mapTable(c, o.loops, grainCheap) }

func affineLoop[T floatNumber](dst, src []T, alpha, beta float64) {
	dst = dst[:len(src)]
	a, b := T(alpha), T(beta)
	for i, x := range src {
		dst[i] = a*x + b
	}
}
