package ops

import "github.com/onward-ml/onward/internal/ir"

// ScatterND returns its first input with a slice replaced by, or reduced with,
// each slice of updates; the innermost vectors of indices are the leading
// coordinates of the slices
// (https://onnx.ai/onnx/operators/onnx__ScatterND.html).
type ScatterND struct {
	Reduction string // none, add, mul, max, min
}

var _ = register(Def{Name: "ScatterND", Since: []int{11, 13, 16, 18},
	In: "data:T, indices:int64, updates:T", Out: "output:T", Types: Types{"T": moveTypes},
	Build: simple(func(a *Attrs, opset int) Operator { return &ScatterND{Reduction: scatterReduction(a, opset)} })})

// Infer implements ir.Operator.
func (op *ScatterND) Infer(c *ir.InferContext) error { return sameAsInput(c) }

// Run implements ir.Operator.
func (op *ScatterND) Run(c *ir.Call) error {
	data, idx, up := c.Tensor(0), c.Tensor(1), c.Tensor(2)
	if err := checkScatterND(data, idx, up); err != nil {
		return err
	}
	at, block, err := slicePlaces(c, data.Shape(), idx, 0)
	if err != nil {
		return err
	}
	return scatter(c, data, up, at, block, op.Reduction)
}
