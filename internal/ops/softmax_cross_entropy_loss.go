package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/internal/ops/kit/reduce"
	"github.com/onward-ml/onward/tensor"
)

// SoftmaxCrossEntropyLoss returns the negative log likelihood loss of the softmax of the scores
// over the classes, dimension 1. The second output is the logarithm of the softmax
// (https://onnx.ai/onnx/operators/onnx__SoftmaxCrossEntropyLoss.html).
type SoftmaxCrossEntropyLoss struct{ reduce.ClassLoss }

var _ = kit.Register(&kit.Def{Name: "SoftmaxCrossEntropyLoss", Since: kit.Versions{12, 13},
	In: "scores:T, labels:Tind, weights:T?", Out: "output:T, log_prob:T?",
	Class: kit.ClassReduction,
	Types: "T: @float; Tind: int32 int64", Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &SoftmaxCrossEntropyLoss{reduce.BuildClassLoss(a)}
	},
	Gradient: &gradient.Gradient{Rule: crossEntropyGradient}})

// crossEntropyGradient differentiates the loss by the logarithm of the softmax p, the
// second output, and p by the scores: dx = dp − exp(p)·Σ dp.
func crossEntropyGradient(b *gradient.Builder, n *gradient.Node, gs []string) ([]string, error) {
	var p, dp string
	if len(n.Outputs) > 1 {
		p, dp = n.Outputs[1], gs[1]
	}
	if p == "" {
		m := *n
		m.Outputs = []string{"", ""} // as many as the repetition has
		p = b.Again(&m)[1]
	}
	r := make([]string, len(n.Inputs))
	if gs[0] != "" {
		loss := n.WithInputs(p)
		loss.OpType, loss.Outputs = "NegativeLogLikelihoodLoss", n.Outputs[:1]
		into, err := b.Tape.Differentiate(loss, gs[:1])
		if err != nil {
			return nil, err
		}
		copy(r[1:], into[1:])
		if dp != "" {
			dp = b.Op("Add", dp, into[0])
		} else {
			dp = into[0]
		}
	}
	r[0] = b.Op("Sub", dp, b.Op("Mul", b.Op("Exp", p), b.SumAxis(dp, 1)))
	return r, nil
}

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
	classes := s.Classes()
	if f, ok := any(x).([]float32); ok && !c.Generic {
		if err := logSoftmaxF32.launch(c, any(logProb.Data).([]float32), f, classes, logSoftmaxRows(c),
			logSoftmaxF32.columns); err != nil {
			return err
		}
	} else if err := classes.EachLine(c,
		func(base, m int) { logSoftmaxLines(c, logProb.Data, x, classes, base, m) }); err != nil {
		return err
	}
	c.Sync() // the loss reads the result
	if err := reduce.LossRun(&op.ClassLoss, c, s, logProb.Data); err != nil {
		return err
	}
	if logProb.T != nil {
		logProb.Store()
	}
	return nil
}
