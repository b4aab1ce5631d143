package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/internal/ops/kit/reduce"
	"github.com/onward-ml/onward/tensor"
)

// NegativeLogLikelihoodLoss returns the weighted negative log probability of the targets
// (https://onnx.ai/onnx/operators/onnx__NegativeLogLikelihoodLoss.html).
type NegativeLogLikelihoodLoss struct{ reduce.ClassLoss }

var _ = kit.Register(&kit.Def{Name: "NegativeLogLikelihoodLoss", Since: kit.Versions{12, 13, 22},
	In: "input:T, target:Tind, weight:T?", Out: "loss:T",
	Class: kit.ClassReduction,
	Types: "T: @float; Tind: int32 int64", Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &NegativeLogLikelihoodLoss{reduce.BuildClassLoss(a)}
	},
	Gradient: gradient.Decomposition(classLossParts)})

// classLossParts computes the loss by gathering the scores, and the weights, of the target
// classes.
func classLossParts(b *gradient.Builder, n *gradient.Node) (string, error) {
	x, target, weight := n.Inputs[0], n.Input(1), n.Input(2)
	attrs := n.Attrs.Only("ignore_index")
	at := b.Node("onward.ClassPositions", attrs, target, x)
	var w string
	if weight == "" {
		w = b.GatherBack(b.Filled(1, x), at)
	} else {
		w = b.GatherBack(weight, b.Node("onward.ClassPositions", attrs.With("per_class", int64(1)), target, weight))
	}
	loss := b.Op("Neg", b.Op("Mul", b.GatherBack(x, at), w))
	all := func(v string) string { return b.Op("onward.ReshapeTo", b.SumFrom(v, 0), n.Outputs[0]) }
	switch n.Attrs.Text("reduction") {
	case "none":
		return loss, nil
	case "sum":
		return all(loss), nil
	}
	return b.Op("Div", all(loss), all(w)), nil
}

// Infer sets the shape of the loss.
func (op *NegativeLogLikelihoodLoss) Infer(c *ir.InferContext) error { return op.InferLoss(c) }

// Run computes the loss.
func (op *NegativeLogLikelihoodLoss) Run(c *ir.Call) error {
	s, err := op.Shape(c)
	if err != nil {
		return err
	}
	if c.Tensor(0).DType() == tensor.TypeFloat64 {
		return reduce.LossRun(&op.ClassLoss, c, s, tensor.MustData[float64](c.Tensor(0)))
	}
	x, err := kit.RealIn[float32](c, c.Tensor(0))
	if err != nil {
		return err
	}
	return reduce.LossRun(&op.ClassLoss, c, s, x)
}
