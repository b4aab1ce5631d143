package autodiff

import (
	"fmt"
	"slices"

	"github.com/onward-ml/onward/onnx"
)

// windowGradients are the rules of convolutions and poolings. A convolution
// Y = X∗W is linear in both, and the gradients for X and for W are again linear in
// their two inputs, so the three operators are each other's gradients.
func windowGradients() map[string]ruleFunc {
	first := func(n *onnx.Node) string { return n.Inputs[0] }
	channels := func(b *builder, g, like string) string { return b.op("onward.ChannelSum", g, like) }
	return map[string]ruleFunc{
		"Conv": func(b *builder, n *onnx.Node, g string) ([]string, error) {
			if len(n.Inputs) < 2 {
				return nil, fmt.Errorf("%d inputs, want 2 or 3", len(n.Inputs))
			}
			r := make([]string, len(n.Inputs))
			r[0] = b.node("onward.ConvInputGradient", n.Attributes, g, n.Inputs[1], n.Inputs[0])
			r[1] = b.node("onward.ConvWeightGradient", n.Attributes, g, n.Inputs[0], n.Inputs[1])
			if len(r) > 2 && n.Inputs[2] != "" {
				r[2] = channels(b, g, n.Inputs[2])
			}
			return r, nil
		},
		"ConvInputGradient": func(b *builder, n *onnx.Node, g string) ([]string, error) {
			return []string{b.node("Conv", n.Attributes, g, n.Inputs[1]), b.node("onward.ConvWeightGradient", n.Attributes, n.Inputs[0], g, n.Inputs[1]), ""}, nil
		},
		"ConvWeightGradient": func(b *builder, n *onnx.Node, g string) ([]string, error) {
			return []string{b.node("Conv", n.Attributes, n.Inputs[1], g), b.node("onward.ConvInputGradient", n.Attributes, n.Inputs[0], g, n.Inputs[1]), ""}, nil
		},
		"ConvTranspose": func(b *builder, n *onnx.Node, g string) ([]string, error) {
			if len(n.Inputs) < 2 {
				return nil, fmt.Errorf("%d inputs, want 2 or 3", len(n.Inputs))
			}
			if auto := stringAttr(n, "auto_pad"); auto != "" && auto != "NOTSET" || slices.ContainsFunc(n.Attributes, func(a *onnx.Attribute) bool { return a.Name == "output_shape" }) {
				return nil, fmt.Errorf("is differentiated with explicit pads, not with auto_pad %q or output_shape", auto)
			}
			attrs := slices.DeleteFunc(slices.Clone(n.Attributes), func(a *onnx.Attribute) bool { return a.Name == "output_padding" })
			r := make([]string, len(n.Inputs))
			r[0] = b.node("Conv", attrs, g, n.Inputs[1])
			r[1] = b.node("onward.ConvWeightGradient", attrs, n.Inputs[0], g, n.Inputs[1])
			if len(r) > 2 && n.Inputs[2] != "" {
				r[2] = channels(b, g, n.Inputs[2])
			}
			return r, nil
		},
		"ChannelSum":    firstOnly(func(b *builder, x, y, g string) string { return b.op("onward.ChannelExpand", g, x) }),
		"ChannelExpand": firstOnly(func(b *builder, x, y, g string) string { return b.op("onward.ChannelSum", g, x) }),
		"ChannelWindowSum": func(b *builder, n *onnx.Node, g string) ([]string, error) {
			return []string{b.node("onward.ChannelWindowSum", []*onnx.Attribute{{Name: "factor", Type: onnx.AttrFloat, F: -floatAttr(n, "factor", 1)}}, g)}, nil
		},
		"AveragePool": func(b *builder, n *onnx.Node, g string) ([]string, error) {
			return []string{b.node("onward.AveragePoolGradient", n.Attributes, g, first(n))}, nil
		},
		"AveragePoolGradient": func(b *builder, n *onnx.Node, g string) ([]string, error) {
			return onlyFirst(n, b.node("AveragePool", n.Attributes, g)), nil
		},
		"GlobalAveragePool": func(b *builder, n *onnx.Node, g string) ([]string, error) {
			count := b.sumTo(b.filled(1, first(n)), n.Outputs[0])
			return []string{b.op("onward.ExpandTo", b.op("Div", g, count), first(n))}, nil
		},
		"MaxPool": func(b *builder, n *onnx.Node, g string) ([]string, error) {
			if err := b.need(8); err != nil {
				return nil, err
			}
			m := &onnx.Node{OpType: "MaxPool", Inputs: n.Inputs, Outputs: []string{b.fresh(), b.fresh()},
				Attributes: slices.DeleteFunc(slices.Clone(n.Attributes), func(a *onnx.Attribute) bool { return a.Name == "storage_order" })}
			b.nodes = append(b.nodes, m)
			return []string{b.scatterBack(0, g, m.Outputs[1], first(n))}, nil
		},
	}
}
