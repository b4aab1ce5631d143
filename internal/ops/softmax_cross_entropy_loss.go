package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// SoftmaxCrossEntropyLoss is the negative log likelihood loss of the softmax of
// the scores over the classes, dimension 1; its second output is the logarithm
// of that softmax
// (https://onnx.ai/onnx/operators/onnx__SoftmaxCrossEntropyLoss.html).
type SoftmaxCrossEntropyLoss struct{ classLoss }

var _ = register(Def{Name: "SoftmaxCrossEntropyLoss", Since: []int{12, 13}, In: "scores:T, labels:Tind, weights:T?", Out: "output:T, log_prob:T?",
	Types: Types{"T": "@float", "Tind": "int32 int64"}, Build: simple(func(a *Attrs, opset int) Operator {
		return &SoftmaxCrossEntropyLoss{buildClassLoss(a)}
	})})

// Infer sets the shape of the loss, and log_prob to the type of the scores.
func (op *SoftmaxCrossEntropyLoss) Infer(c *ir.InferContext) error {
	c.SetOut(1, c.Type(0))
	return op.inferLoss(c)
}

// Run computes the loss.
func (op *SoftmaxCrossEntropyLoss) Run(c *ir.Call) error {
	if c.Tensor(0).DType() == tensor.TypeFloat64 {
		return runCrossEntropy[float64](op, c)
	}
	return runCrossEntropy[float32](op, c)
}

func runCrossEntropy[T realFloat](op *SoftmaxCrossEntropyLoss, c *ir.Call) error {
	s, err := op.shape(c)
	if err != nil {
		return err
	}
	x, err := realIn[T](c, c.Tensor(0))
	if err != nil {
		return err
	}
	logProb, err := realMaybe[T](c, 1, c.Tensor(0).DType(), c.Tensor(0).Shape()...)
	if err != nil {
		return err
	}
	logSoftmaxClasses(c, s, x, logProb.data)
	if err := lossRun(&op.classLoss, c, s, logProb.data); err != nil {
		return err
	}
	if logProb.t != nil {
		logProb.store()
	}
	return nil
}
