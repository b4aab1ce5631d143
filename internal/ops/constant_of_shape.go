package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/internal/ops/kit/move"
	"github.com/onward-ml/onward/tensor"
)

// ConstantOfShape returns a tensor with the shape given by its input, filled with the element of
// Value, by default a float 0 (https://onnx.ai/onnx/operators/onnx__ConstantOfShape.html).
type ConstantOfShape struct{ Value *tensor.Tensor }

var _ = kit.Register(&kit.Def{Name: "ConstantOfShape", Since: kit.Versions{9, 20, 21, 23, 24, 25},
	In: "input:int64", Out: "output:T", Types: "T: @all",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		v := a.Tensor("value")
		if v == nil {
			v = tensor.Scalar[float32](0)
		} else if v.Len() != 1 {
			a.Errorf("attribute value has shape %v, want one element", v.Shape())
		}
		return &ConstantOfShape{Value: v}
	},
	Gradient: gradient.None})

// Infer implements ir.Operator.
func (op *ConstantOfShape) Infer(c *ir.InferContext) error {
	if err := kit.CheckRank(c, 0, 1, "input"); err != nil {
		return err
	}
	shape := c.Contents(0)
	for i, d := range shape {
		if n, ok := d.Value(); ok && n < 0 {
			return kit.NegativeDim(i, n)
		}
	}
	kit.SetShape(c, 0, op.Value.DType(), shape)
	if v := kit.Ints(op.Value); len(v) == 1 && len(shape) <= 1 && shape != nil {
		if n, ok := ir.Product(shape).Value(); ok && n <= tensor.MaxRank {
			d := make([]ir.Dim, n)
			for i := range d {
				d[i] = ir.Known(v[0])
			}
			c.SetContents(0, d)
		}
	}
	return nil
}

// Run implements ir.Operator.
func (op *ConstantOfShape) Run(c *ir.Call) error {
	shape, err := kit.SmallInts(c.Tensor(0), "input")
	if err != nil {
		return err
	}
	dst, err := move.Out(c, 0, op.Value.DType(), shape...)
	if err != nil {
		return err
	}
	v, err := move.In(c, op.Value)
	if err != nil {
		return err
	}
	move.Fill(c, dst, v)
	dst.Done()
	return nil
}
