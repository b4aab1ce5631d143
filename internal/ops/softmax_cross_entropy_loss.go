package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// SoftmaxCrossEntropyLoss is the negative log likelihood loss of the softmax of
// the scores over the classes, dimension 1; its second output is the logarithm
// of that softmax
// (https://onnx.ai/onnx/operators/onnx__SoftmaxCrossEntropyLoss.html).
type SoftmaxCrossEntropyLoss struct{ kit.ClassLoss }

var _ = kit.Register(kit.Def{Name: "SoftmaxCrossEntropyLoss", Since: []int{12, 13}, In: "scores:T, labels:Tind, weights:T?", Out: "output:T, log_prob:T?",
	Types: kit.Types{"T": "@float", "Tind": "int32 int64"}, Build: kit.Simple(func(a *kit.Attrs, opset int) kit.Operator {
		return &SoftmaxCrossEntropyLoss{kit.BuildClassLoss(a)}
	})})

// Infer sets the shape of the loss, and log_prob to the type of the scores.
func (op *SoftmaxCrossEntropyLoss) Infer(c *ir.InferContext) error {
	c.SetOut(1, c.Type(0))
	return op.InferLoss(c)
}

// Run computes the loss.
func (op *SoftmaxCrossEntropyLoss) Run(c *ir.Call) error {
	if c.Tensor(0).DType() == tensor.TypeFloat64 {
		return runCrossEntropy[float64](op, c)
	}
	return runCrossEntropy[float32](op, c)
}

func runCrossEntropy[T kit.RealFloat](op *SoftmaxCrossEntropyLoss, c *ir.Call) error {
	s, err := op.Shape(c)
	if err != nil {
		return err
	}
	x, err := kit.RealIn[T](c, c.Tensor(0))
	if err != nil {
		return err
	}
	logProb, err := kit.RealMaybe[T](c, 1, c.Tensor(0).DType(), c.Tensor(0).Shape()...)
	if err != nil {
		return err
	}
	kit.LogSoftmaxClasses(c, s, x, logProb.Data)
	if err := kit.LossRun(&op.ClassLoss, c, s, logProb.Data); err != nil {
		return err
	}
	if logProb.T != nil {
		logProb.Store()
	}
	return nil
}
