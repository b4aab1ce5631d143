package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/tensor"
)

// CastLike converts the elements of its first input to the type of the second
// (https://onnx.ai/onnx/operators/onnx__CastLike.html).
type CastLike struct{ Options tensor.ConvertOptions }

var _ = kit.Register(&kit.Def{Name: "CastLike", Since: kit.Versions{15, 19, 21, 23, 24, 25},
	In: "input:T1, target_type:T2", Out: "output:T2",
	Types: "T1: " + kit.CastTypes + "; T2: " + kit.CastTypes,
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &CastLike{Options: kit.ReadConvertOptions(a, opset)}
	},
	Gradient: gradient.Derivative(func(b *gradient.Builder, x, y, g string) string { return b.Op("CastLike", g, x) })})

// Infer implements [ir.Operator].
func (o *CastLike) Infer(c *ir.InferContext) error { kit.InferCast(c, c.Elem(1)); return nil }

// Run implements [ir.Operator].
func (o *CastLike) Run(c *ir.Call) error { return kit.RunCast(c, c.Tensor(1).DType(), o.Options) }
