package autodiff

import (
	"slices"

	"github.com/onward-ml/onward/onnx"
)

// classLoss computes a NegativeLogLikelihoodLoss by picking from the scores, and
// from the weights, what the targets name.
func (b *builder) classLoss(n *onnx.Node) (string, error) {
	x, target, weight := n.Inputs[0], input(n, 1), input(n, 2)
	picked := func(from, positions string) string {
		return b.node("onward.GatherBack", []*onnx.Attribute{{Name: "factor", Type: onnx.AttrFloat, F: 1}}, from, positions)
	}
	attrs := slices.DeleteFunc(slices.Clone(n.Attributes), func(a *onnx.Attribute) bool { return a.Name != "ignore_index" })
	at := b.node("onward.ClassPositions", attrs, target, x)
	var w string
	if weight == "" {
		w = picked(b.filled(1, x), at)
	} else {
		class := append(attrs, &onnx.Attribute{Name: "per_class", Type: onnx.AttrInt, I: 1})
		w = picked(weight, b.node("onward.ClassPositions", class, target, weight))
	}
	loss := b.op("Neg", b.op("Mul", picked(x, at), w))
	all := func(v string) string { return b.op("onward.ReshapeTo", b.sumFrom(v, 0), n.Outputs[0]) }
	switch stringAttr(n, "reduction") {
	case "none":
		return loss, nil
	case "sum":
		return all(loss), nil
	}
	return b.op("Div", all(loss), all(w)), nil
}

// crossEntropyGradient differentiates the loss by the logarithm of the softmax p,
// the second output, and this by the scores: dx = dp − exp(p)·Σ dp.
func crossEntropyGradient(b *builder, n *onnx.Node, gs []string) ([]string, error) {
	var p, dp string
	if len(n.Outputs) > 1 {
		p, dp = n.Outputs[1], gs[1]
	}
	if p == "" {
		m := *n
		m.Outputs = []string{"", ""} // as many as again makes
		p = b.again(&m)[1]
	}
	r := make([]string, len(n.Inputs))
	if gs[0] != "" {
		loss := *n
		loss.Inputs = slices.Clone(n.Inputs)
		loss.Inputs[0] = p
		into, err := rules["NegativeLogLikelihoodLoss"](b, &loss, gs[0])
		if err != nil {
			return nil, err
		}
		copy(r[1:], into[1:])
		if dp != "" {
			dp = b.op("Add", dp, into[0])
		} else {
			dp = into[0]
		}
	}
	r[0] = b.op("Sub", dp, b.op("Mul", b.op("Exp", p), b.sumAxis(dp, 1)))
	return r, nil
}
