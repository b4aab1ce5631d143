package ops

import (
	"fmt"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
)

// GatherElements returns one element of its first input for each element of indices, which is the
// coordinate along Axis (https://onnx.ai/onnx/operators/onnx__GatherElements.html).
type GatherElements struct{ Axis int }

var _ = kit.Register(kit.Def{Name: "GatherElements", Since: []int{11, 13},
	In: "data:T, indices:I", Out: "output:T", Types: kit.Types{"T": kit.MoveTypes, "I": "int32 int64"},
	Build:    kit.Simple(func(a *kit.Attrs, opset int) kit.Operator { return &GatherElements{Axis: a.Int("axis", 0)} }),
	Gradient: kit.MoveGradient})

// Infer implements ir.Operator.
func (op *GatherElements) Infer(c *ir.InferContext) error {
	data, idx := c.Shape(0), c.Shape(1)
	kit.SetShape(c, 0, c.Elem(0), idx)
	if data == nil {
		return nil
	}
	if _, err := kit.NormalAxis(op.Axis, len(data)); err != nil {
		return err
	}
	if idx == nil {
		kit.SetShape(c, 0, c.Elem(0), ir.UnknownDims(len(data)))
	} else if len(idx) != len(data) {
		return fmt.Errorf("indices have rank %d, data has rank %d", len(idx), len(data))
	}
	return nil
}

// Run implements ir.Operator.
func (op *GatherElements) Run(c *ir.Call) error {
	x, idx := c.Tensor(0), c.Tensor(1)
	axis, err := kit.NormalAxis(op.Axis, x.Rank())
	if err != nil {
		return err
	}
	at, err := kit.ElementOffsets(c, x.Shape(), idx, axis)
	if err != nil {
		return err
	}
	dst, err := kit.MoveOut(c, 0, x.DType(), idx.Shape()...)
	if err != nil {
		return err
	}
	src, err := kit.MoveIn(c, x)
	if err != nil {
		return err
	}
	kit.MoveGather(c, dst, src, 1, 0, at, 1)
	dst.Done()
	return nil
}
