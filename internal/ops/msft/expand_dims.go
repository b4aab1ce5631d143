package msft

import (
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/move"
)

// ExpandDims inserts a dimension of size 1 at the axis given by its second input, in
// [−rank−1, rank]; negative values count from the end
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.ExpandDims).
type ExpandDims struct{}

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "ExpandDims", Since: kit.Versions{1},
	In: "X:T, axis:int32", Out: "Y:T",
	Types: "T: " + move.Types,
	Build: kit.WithoutAttrs[ExpandDims]})

// ViewOf implements [ir.View].
func (*ExpandDims) ViewOf() int { return 0 }

func expandDimsAxis(axis, rank int) (int, error) {
	if axis < -rank-1 || axis > rank {
		return 0, fail.Errorf("axis is %d, want it in [%d, %d] for rank %d", axis, -rank-1, rank, rank)
	}
	if axis < 0 {
		axis += rank + 1
	}
	return axis, nil
}

// Infer implements [ir.Operator].
func (*ExpandDims) Infer(c *ir.InferContext) error {
	kit.SetShape(c, 0, c.Elem(0), nil)
	s := c.Shape(0)
	if s == nil {
		return nil
	}
	axis, ok := kit.KnownInts(c, 1)
	if !ok || len(axis) != 1 {
		kit.SetShape(c, 0, c.Elem(0), ir.UnknownDims(len(s)+1))
		return nil
	}
	at, err := expandDimsAxis(axis[0], len(s))
	if err != nil {
		return err
	}
	kit.SetShape(c, 0, c.Elem(0), slices.Insert(slices.Clone(s), at, ir.Known(1)))
	return nil
}

// Run implements [ir.Operator].
func (*ExpandDims) Run(c *ir.Call) error {
	x := c.Tensor(0)
	axis, err := kit.ScalarInt(c.Tensor(1), "axis")
	if err != nil {
		return err
	}
	at, err := expandDimsAxis(axis, x.Rank())
	if err != nil {
		return err
	}
	y, err := x.Reshape(slices.Insert(slices.Clone(x.Shape()), at, 1)...)
	if err != nil {
		return err
	}
	c.Set(0, y)
	return nil
}
