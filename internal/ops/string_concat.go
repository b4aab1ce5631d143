package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// StringConcat joins the strings of two tensors, which broadcast
// (https://onnx.ai/onnx/operators/onnx__StringConcat.html).
type StringConcat struct{}

var _ = register(Def{Name: "StringConcat", Since: []int{20},
	In: "X:string, Y:string", Out: "Z:string",
	Build: simple(func(a *Attrs, opset int) Operator { return &StringConcat{} })})

// Infer implements ir.Operator.
func (op *StringConcat) Infer(c *ir.InferContext) error {
	out, err := broadcastDims(c.Shape(0), c.Shape(1))
	if err != nil {
		return err
	}
	setShape(c, 0, tensor.TypeString, out)
	return nil
}

// Run implements ir.Operator.
func (op *StringConcat) Run(c *ir.Call) error {
	x, y := c.Tensor(0), c.Tensor(1)
	shape, err := broadcastShapes(x.Shape(), y.Shape())
	if err != nil {
		return err
	}
	out, err := c.Output(0, tensor.TypeString, shape...)
	if err != nil {
		return err
	}
	z := tensor.Of[string](out)
	// The output first takes the left strings; the right ones follow.
	src, err := moveIn(c, x)
	if err != nil {
		return err
	}
	moveStrided(c, moveBuf{strs: z}, src, shape, strides(shape), 0, broadcastStrides(x.Shape(), shape), 0)
	right := tensor.Of[string](y)
	if y.Len() != len(z) {
		if err := c.Reserve(int64(len(z)) * 16); err != nil {
			return err
		}
		right = make([]string, len(z))
		moveStrided(c, moveBuf{strs: right}, moveBuf{strs: tensor.Of[string](y)}, shape, strides(shape), 0, broadcastStrides(y.Shape(), shape), 0)
	}
	size := int64(0)
	for i, s := range z {
		size += int64(len(s) + len(right[i]))
	}
	if err := c.Reserve(size); err != nil {
		return err
	}
	for i := range z {
		if i&0xfff == 0 {
			if err := c.Err(); err != nil {
				return err
			}
		}
		z[i] += right[i]
	}
	return nil
}
