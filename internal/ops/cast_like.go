package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// CastLike converts the elements of its first input to the type of the second
// (https://onnx.ai/onnx/operators/onnx__CastLike.html).
type CastLike struct{ Options tensor.ConvertOptions }

var _ = register(Def{Name: "CastLike", Since: []int{15, 19, 21, 23, 24, 25}, In: "input:T1, target_type:T2", Out: "output:T2",
	Types: Types{"T1": castTypes, "T2": castTypes},
	Build: simple(func(a *Attrs, opset int) Operator {
		return &CastLike{Options: readConvertOptions(a, opset)}
	})})

// Infer implements [ir.Operator].
func (o *CastLike) Infer(c *ir.InferContext) error { inferCast(c, c.Elem(1)); return nil }

// Run implements [ir.Operator].
func (o *CastLike) Run(c *ir.Call) error { return runCast(c, c.Tensor(1).DType(), o.Options) }
