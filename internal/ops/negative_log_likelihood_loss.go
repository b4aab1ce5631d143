package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// NegativeLogLikelihoodLoss is the weighted negative log probability of the
// targets (https://onnx.ai/onnx/operators/onnx__NegativeLogLikelihoodLoss.html).
type NegativeLogLikelihoodLoss struct{ classLoss }

var _ = register(Def{Name: "NegativeLogLikelihoodLoss", Since: []int{12, 13, 22}, In: "input:T, target:Tind, weight:T?", Out: "loss:T",
	Types: Types{"T": "@float", "Tind": "int32 int64"}, Build: simple(func(a *Attrs, opset int) Operator {
		return &NegativeLogLikelihoodLoss{buildClassLoss(a)}
	})})

// Infer sets the shape of the loss.
func (op *NegativeLogLikelihoodLoss) Infer(c *ir.InferContext) error { return op.inferLoss(c) }

// Run computes the loss.
func (op *NegativeLogLikelihoodLoss) Run(c *ir.Call) error {
	s, err := op.shape(c)
	if err != nil {
		return err
	}
	if c.Tensor(0).DType() == tensor.TypeFloat64 {
		return lossRun(&op.classLoss, c, s, tensor.Of[float64](c.Tensor(0)))
	}
	x, err := realIn[float32](c, c.Tensor(0))
	if err != nil {
		return err
	}
	return lossRun(&op.classLoss, c, s, x)
}
