package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// Size returns the number of elements of its input
// (https://onnx.ai/onnx/operators/onnx__Size.html).
type Size struct{}

var _ = register(Def{Name: "Size", Since: []int{1, 13, 19, 21, 23, 24, 25},
	In: "data:T", Out: "size:int64", Types: Types{"T": "@all"},
	Build: simple(func(a *Attrs, opset int) Operator { return &Size{} })})

const tensorInt64 = tensor.TypeInt64

// outInt64s makes a list of ints output i.
func outInt64s(c *ir.Call, i int, v []int, shape ...int) error {
	t, err := c.Output(i, tensorInt64, shape...)
	if err != nil {
		return err
	}
	out := tensor.Of[int64](t)
	for k, n := range v {
		out[k] = int64(n)
	}
	return nil
}

// Infer implements ir.Operator.
func (op *Size) Infer(c *ir.InferContext) error {
	c.SetOut(0, ir.TensorType(tensorInt64))
	if in := c.Shape(0); in != nil {
		c.SetContents(0, []ir.Dim{ir.Product(in)})
	}
	return nil
}

// Run implements ir.Operator.
func (op *Size) Run(c *ir.Call) error { return outInt64s(c, 0, []int{c.Tensor(0).Len()}) }
