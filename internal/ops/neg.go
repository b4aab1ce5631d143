package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
)

// Neg computes −x of each element
// (https://onnx.ai/onnx/operators/onnx__Neg.html).
type Neg struct{}

var _ = register(Def{Name: "Neg", Since: []int{1, 6, 13}, In: "X:T", Out: "Y:T", Types: Types{"T": "@signed @float"},
	Build: withoutAttrs(&Neg{})})

var negLoops = loopsOf(
	loop1(negLoop[int8]), loop1(negLoop[int16]), loop1(negLoop[int32]), loop1(negLoop[int64]),
	withUnary(loop1(negLoop[float32]), vec.NegF32), loop1(negLoop[float64]))

// Infer implements [ir.Operator].
func (*Neg) Infer(c *ir.InferContext) error {
	c.SetOut(0, c.Type(0))
	if d := c.Contents(0); d != nil {
		r := make([]ir.Dim, len(d))
		for i, e := range d {
			r[i] = ir.Known(0).Sub(e)
		}
		setContents(c, c.Elem(0), r)
	}
	return nil
}

// Run implements [ir.Operator].
func (*Neg) Run(c *ir.Call) error { return mapTable(c, negLoops, grainCheap) }

func negLoop[T signedNumber | floatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = -x
	}
}
