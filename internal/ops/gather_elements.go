package ops

import (
	"fmt"

	"github.com/onward-ml/onward/internal/ir"
)

// GatherElements takes one element of its first input for every element of
// indices, which names the coordinate along Axis
// (https://onnx.ai/onnx/operators/onnx__GatherElements.html).
type GatherElements struct{ Axis int }

var _ = register(Def{Name: "GatherElements", Since: []int{11, 13},
	In: "data:T, indices:I", Out: "output:T", Types: Types{"T": moveTypes, "I": "int32 int64"},
	Build: simple(func(a *Attrs, opset int) Operator { return &GatherElements{Axis: a.Int("axis", 0)} })})

// Infer implements ir.Operator.
func (op *GatherElements) Infer(c *ir.InferContext) error {
	data, idx := c.Shape(0), c.Shape(1)
	setShape(c, 0, c.Elem(0), idx)
	if data == nil {
		return nil
	}
	if _, err := normalAxis(op.Axis, len(data)); err != nil {
		return err
	}
	if idx == nil {
		setShape(c, 0, c.Elem(0), ir.UnknownDims(len(data)))
	} else if len(idx) != len(data) {
		return fmt.Errorf("indices have rank %d, data has rank %d", len(idx), len(data))
	}
	return nil
}

// Run implements ir.Operator.
func (op *GatherElements) Run(c *ir.Call) error {
	x, idx := c.Tensor(0), c.Tensor(1)
	axis, err := normalAxis(op.Axis, x.Rank())
	if err != nil {
		return err
	}
	at, err := elementPlaces(c, x.Shape(), idx, axis)
	if err != nil {
		return err
	}
	dst, err := moveOut(c, 0, x.DType(), idx.Shape()...)
	if err != nil {
		return err
	}
	src, err := moveIn(c, x)
	if err != nil {
		return err
	}
	moveGather(c, dst, src, 1, 0, at, 1)
	dst.done()
	return nil
}
