package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
)

// Add returns the sum of two tensors; integers wrap around
// (https://onnx.ai/onnx/operators/onnx__Add.html).
type Add struct{ kit.AxisBroadcast }

var _ = kit.Register(&kit.Def{Name: "Add", Since: kit.Versions{1, 6, 7, 13, 14}, In: "A:T, B:T", Out: "C:T", Types: "T: @number",
	Elementwise: true, Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &Add{kit.ReadAxisBroadcast(a, opset)}
	},
	Gradient: kit.Derivatives(
		func(b *kit.GradientBuilder, x, y, z, g string) string { return g },
		func(b *kit.GradientBuilder, x, y, z, g string) string { return g })})

// Infer implements [ir.Operator].
func (o *Add) Infer(c *ir.InferContext) error {
	return kit.InferBinary(c, o.AxisBroadcast, c.Elem(0), ir.Dim.Add)
}

// Run implements [ir.Operator].
func (o *Add) Run(c *ir.Call) error {
	return kit.RunBinary(c, o.AxisBroadcast, kit.AddLoops, kit.GrainCheap)
}
