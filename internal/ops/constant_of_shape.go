package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// ConstantOfShape returns a tensor of the shape that its input lists, filled
// with the one element of Value, a float 0 by default
// (https://onnx.ai/onnx/operators/onnx__ConstantOfShape.html).
type ConstantOfShape struct{ Value *tensor.Tensor }

var _ = register(Def{Name: "ConstantOfShape", Since: []int{9, 20, 21, 23, 24, 25},
	In: "input:int64", Out: "output:T", Types: Types{"T": "@all"},
	Build: simple(func(a *Attrs, opset int) Operator {
		v := a.Tensor("value")
		if v == nil {
			v = tensor.Scalar[float32](0)
		} else if v.Len() != 1 {
			a.Errorf("attribute value has shape %v, want one element", v.Shape())
		}
		return &ConstantOfShape{Value: v}
	})})

// Infer implements ir.Operator.
func (op *ConstantOfShape) Infer(c *ir.InferContext) error {
	if err := checkRank(c, 0, 1, "input"); err != nil {
		return err
	}
	shape := c.Contents(0)
	for i, d := range shape {
		if n, ok := d.Value(); ok && n < 0 {
			return negativeDim(i, n)
		}
	}
	setShape(c, 0, op.Value.DType(), shape)
	if v := ints(op.Value); len(v) == 1 && len(shape) <= 1 && shape != nil {
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
	shape, err := smallInts(c.Tensor(0), "input")
	if err != nil {
		return err
	}
	dst, err := moveOut(c, 0, op.Value.DType(), shape...)
	if err != nil {
		return err
	}
	v, err := moveIn(c, op.Value)
	if err != nil {
		return err
	}
	moveFill(c, dst, v)
	dst.done()
	return nil
}
