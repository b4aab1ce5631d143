package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
)

// Add returns the sum of two tensors; integers wrap around
// (https://onnx.ai/onnx/operators/onnx__Add.html).
type Add struct{ elementwise.AxisBroadcast }

var _ = kit.Register(&kit.Def{Name: "Add", Since: kit.Versions{1, 6, 7, 13, 14}, In: "A:T, B:T", Out: "C:T",
	Types:       "T: @number",
	Elementwise: true, Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &Add{elementwise.ReadAxisBroadcast(a, opset)}
	},
	Gradient: gradient.Derivatives(
		func(b *gradient.Builder, x, y, z, g string) string { return g },
		func(b *gradient.Builder, x, y, z, g string) string { return g })})

// Infer implements [ir.Operator].
func (o *Add) Infer(c *ir.InferContext) error {
	return elementwise.InferBinary(c, o.AxisBroadcast, c.Elem(0), ir.Dim.Add)
}

// Run implements [ir.Operator].
func (o *Add) Run(c *ir.Call) error {
	return elementwise.RunBinary(c, o.AxisBroadcast, elementwise.AddLoops, kit.GrainCheap)
}
