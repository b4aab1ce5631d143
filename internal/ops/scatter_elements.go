package ops

import (
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/internal/ops/kit/move"
)

// ScatterElements returns its first input with one element replaced by, or reduced with, each
// element of updates. indices holds the coordinates along Axis. The last of several updates of one
// element is kept (https://onnx.ai/onnx/operators/onnx__ScatterElements.html).
type ScatterElements struct {
	Axis      int
	Reduction string // none, add, mul, max, min
}

var scatterSignature = kit.Def{In: "data:T, indices:I, updates:T", Out: "output:T",
	Types: "T: " + move.Types + "; I: int32 int64",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &ScatterElements{Axis: a.Int("axis", 0), Reduction: scatterReduction(a, opset)}
	},
	Gradient: gradient.Scatter("GatherElements")}

var _ = func() *kit.Def {
	d := scatterSignature
	d.Name, d.Since = "ScatterElements", kit.Versions{11, 13, 16, 18}
	return kit.Register(&d)
}()

// Infer implements ir.Operator.
func (op *ScatterElements) Infer(c *ir.InferContext) error {
	data := c.Shape(0)
	if data != nil {
		if _, err := kit.NormalAxis(op.Axis, len(data)); err != nil {
			return err
		}
		for i := 1; i <= 2; i++ {
			if err := kit.CheckRank(c, i, len(data), []string{"", "indices", "updates"}[i]); err != nil {
				return err
			}
		}
	}
	return kit.SameAsInput(c)
}

// Run implements ir.Operator.
func (op *ScatterElements) Run(c *ir.Call) error {
	data, idx, up := c.Tensor(0), c.Tensor(1), c.Tensor(2)
	axis, err := kit.NormalAxis(op.Axis, data.Rank())
	if err != nil {
		return err
	}
	if !slices.Equal(idx.Shape(), up.Shape()) {
		return fail.Errorf("indices have shape %v and updates %v, want the same", idx.Shape(), up.Shape())
	}
	if axis == 0 {
		at, block, err := move.RowOffsets(c, data.Shape(), idx)
		if err != nil {
			return err
		}
		if block > 0 {
			return scatter(c, data, up, at, block, op.Reduction)
		}
	}
	at, err := move.ElementOffsets(c, data.Shape(), idx, axis)
	if err != nil {
		return err
	}
	return scatter(c, data, up, at, 1, op.Reduction)
}
