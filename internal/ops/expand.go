package ops

import (
	"fmt"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// Expand broadcasts a tensor and the shape of its second input to each other
// (https://onnx.ai/onnx/operators/onnx__Expand.html).
type Expand struct{}

var _ = register(Def{Name: "Expand", Since: []int{8, 13},
	In: "input:T, shape:int64", Out: "output:T", Types: Types{"T": "@all"},
	Build: simple(func(a *Attrs, opset int) Operator { return &Expand{} })})

func negativeDim(i, n int) error { return fmt.Errorf("dimension %d of the shape is %d", i, n) }

// Infer implements ir.Operator.
func (op *Expand) Infer(c *ir.InferContext) error {
	if err := checkRank(c, 1, 1, "shape"); err != nil {
		return err
	}
	want := c.Contents(1)
	for i, d := range want {
		if n, ok := d.Value(); ok && n < 0 {
			return negativeDim(i, n)
		}
	}
	out, err := broadcastDims(c.Shape(0), want)
	if err != nil {
		return err
	}
	setShape(c, 0, c.Elem(0), out)
	if d := c.Contents(0); len(d) == 1 && len(out) <= 1 && out != nil {
		if n, ok := ir.Product(out).Value(); ok && n <= tensor.MaxRank {
			r := make([]ir.Dim, n)
			for i := range r {
				r[i] = d[0]
			}
			c.SetContents(0, r)
		}
	}
	return nil
}

// Run implements ir.Operator.
func (op *Expand) Run(c *ir.Call) error {
	x := c.Tensor(0)
	want, err := smallInts(c.Tensor(1), "shape")
	if err != nil {
		return err
	}
	for i, n := range want {
		if n < 0 {
			return negativeDim(i, n)
		}
	}
	shape, err := broadcastShapes(x.Shape(), want)
	if err != nil {
		return err
	}
	dst, err := moveOut(c, 0, x.DType(), shape...)
	if err != nil {
		return err
	}
	src, err := moveIn(c, x)
	if err != nil {
		return err
	}
	moveStrided(c, dst, src, shape, strides(shape), 0, broadcastStrides(x.Shape(), shape), 0)
	dst.done()
	return nil
}
