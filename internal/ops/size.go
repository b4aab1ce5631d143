package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
)

// Size returns the number of elements of its input
// (https://onnx.ai/onnx/operators/onnx__Size.html).
type Size struct{}

var _ = kit.Register(&kit.Def{Name: "Size", Since: kit.Versions{1, 13, 19, 21, 23, 24, 25},
	Class: kit.ClassShape,
	In:    "data:T", Out: "size:int64", Types: "T: @all",
	Build:    func(a *kit.Attrs, opset int) kit.Operator { return &Size{} },
	Gradient: gradient.None})

// Infer implements ir.Operator.
func (op *Size) Infer(c *ir.InferContext) error {
	c.SetOut(0, ir.TensorType(kit.TensorInt64))
	if in := c.Shape(0); in != nil {
		c.SetContents(0, []ir.Dim{ir.Product(in)})
	}
	return nil
}

// ReadsShapes implements ir.ShapeReader.
func (op *Size) ReadsShapes() {}

// Run implements ir.Operator.
func (op *Size) Run(c *ir.Call) error { return kit.OutInt64s(c, 0, []int{c.Tensor(0).Len()}) }
