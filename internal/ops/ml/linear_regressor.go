package ml

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// LinearRegressor computes linear functions of each row of X ([N,C], or [C] for one row);
// Y is [N, targets]. Coefficients after those of the last target have no effect
// (https://onnx.ai/onnx/operators/onnx_aionnxml_LinearRegressor.html).
type LinearRegressor struct {
	model     linearModel
	targets   int
	transform postTransform
}

var _ = kit.Register(&kit.Def{Domain: kit.DomainML, Name: "LinearRegressor", Since: kit.Versions{1},
	In: "X:T", Out: "Y:float",
	Types: "T: " + mlNumbers,
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		op := &LinearRegressor{
			model:     linearModel{a.Floats("coefficients"), a.Floats("intercepts")},
			targets:   a.Int("targets", 1),
			transform: readPostTransform(a),
		}
		if op.targets < 1 || op.targets > max(1, len(op.model.coefficients)) {
			a.Errorf("targets is %d, want 1 to the number of coefficients, %d", op.targets, len(op.model.coefficients))
		}
		return op
	}})

// Infer sets Y to [N, targets].
func (op *LinearRegressor) Infer(c *ir.InferContext) error {
	n, cols, err := mlRowDims(c, 0, "X")
	if err != nil {
		return err
	}
	if k, ok := cols.Value(); ok {
		if _, err := op.model.targets(op.targets, k); err != nil {
			return err
		}
	}
	c.SetOut(0, ir.TensorType(tensor.TypeFloat32, n, ir.Known(op.targets)))
	return nil
}

// Run computes the functions.
func (op *LinearRegressor) Run(c *ir.Call) error {
	x := c.Tensor(0)
	n, cols, err := mlRows(x, "X")
	if err != nil {
		return err
	}
	if _, err := op.model.targets(op.targets, cols); err != nil {
		return err
	}
	t, err := c.Output(0, tensor.TypeFloat32, n, op.targets)
	if err != nil {
		return err
	}
	y := tensor.MustData[float32](t)
	if err := op.model.scores(c, x, n, cols, op.targets, y); err != nil {
		return err
	}
	if op.transform != transformNone {
		c.Parallel(n, kit.GrainFor(16*op.targets), func(lo, hi int) {
			transformRows(c, op.transform, y[lo*op.targets:hi*op.targets], op.targets)
		})
	}
	return nil
}
