package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/internal/ops/kit/move"
)

// ScatterND returns its first input with a slice replaced by, or reduced with, each slice of
// updates. The innermost vectors of indices are the leading coordinates of the slices
// (https://onnx.ai/onnx/operators/onnx__ScatterND.html).
type ScatterND struct {
	Reduction string // none, add, mul, max, min
}

var _ = kit.Register(&kit.Def{Name: "ScatterND", Since: kit.Versions{11, 13, 16, 18},
	In: "data:T, indices:int64, updates:T", Out: "output:T", Types: "T: " + move.Types,
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &ScatterND{Reduction: scatterReduction(a, opset)}
	},
	Gradient: gradient.Scatter("GatherND")})

// Infer implements ir.Operator.
func (op *ScatterND) Infer(c *ir.InferContext) error { return kit.SameAsInput(c) }

// Run implements ir.Operator.
func (op *ScatterND) Run(c *ir.Call) error {
	data, idx, up := c.Tensor(0), c.Tensor(1), c.Tensor(2)
	if err := checkScatterND(data, idx, up); err != nil {
		return err
	}
	at, block, err := move.SliceOffsets(c, data.Shape(), idx, 0)
	if err != nil {
		return err
	}
	return scatter(c, data, up, at, block, op.Reduction)
}
