package ops

import (
	"github.com/onward-ml/onward/internal/ir"
)

// Sum adds its inputs, all of which broadcast to one shape
// (https://onnx.ai/onnx/operators/onnx__Sum.html).
type Sum struct{}

var _ = register(Def{Name: "Sum", Since: []int{1, 6, 8, 13}, In: "data_0:T+", Out: "sum:T", Types: Types{"T": "@float"},
	Build: withoutAttrs(&Sum{})})

// Infer implements [ir.Operator].
func (*Sum) Infer(c *ir.InferContext) error { return inferVariadic(c) }

// Run implements [ir.Operator].
func (*Sum) Run(c *ir.Call) error { return runSum(c, 1) }
