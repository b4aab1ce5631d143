package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
)

// Neg computes −x of each element
// (https://onnx.ai/onnx/operators/onnx__Neg.html).
type Neg struct{}

var _ = kit.Register(&kit.Def{Name: "Neg", Since: kit.Versions{1, 6, 13}, In: "X:T", Out: "Y:T",
	Types:       "T: @signed @float",
	Elementwise: true,
	Build:       kit.WithoutAttrs[Neg],
	Gradient:    gradient.Derivative(func(b *gradient.Builder, x, y, g string) string { return b.Op("Neg", g) })})

var negLoops = elementwise.LoopsOf(
	elementwise.WithTable(elementwise.Loop1(negLoop[int8])), elementwise.Loop1(negLoop[int16]),
	elementwise.WithConstant(elementwise.Loop1(negLoop[int32]), 0, vec.SubI32),
	elementwise.WithConstant(elementwise.Loop1(negLoop[int64]), 0, vec.SubI64),
	elementwise.WithUnary(elementwise.Loop1(negLoop[float32]), vec.NegF32), elementwise.Loop1(negLoop[float64]))

// Infer implements [ir.Operator].
func (*Neg) Infer(c *ir.InferContext) error {
	c.SetOut(0, c.Type(0))
	if d := c.Contents(0); d != nil {
		r := make([]ir.Dim, len(d))
		for i, e := range d {
			r[i] = ir.Known(0).Sub(e)
		}
		kit.SetContents(c, c.Elem(0), r)
	}
	return nil
}

// Run implements [ir.Operator].
func (*Neg) Run(c *ir.Call) error { return elementwise.MapTable(c, negLoops, kit.GrainCheap) }

func negLoop[T kit.SignedNumber | kit.FloatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = -x
	}
}
