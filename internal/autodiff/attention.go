package autodiff

import (
	"fmt"

	"github.com/onward-ml/onward/onnx"
)

// attention computes the outputs of an Attention from its pieces.
func attention(b *builder, n *onnx.Node) ([]string, error) {
	if len(n.Inputs) < 3 {
		return nil, fmt.Errorf("%d inputs, want 3 at least", len(n.Inputs))
	}
	heads := func(x, attr string) string {
		return b.node("onward.SplitHeads", []*onnx.Attribute{{Name: "factor", Type: onnx.AttrFloat, F: float32(intAttr(n, attr, 0))}}, x)
	}
	flag := func(name string, v int64) *onnx.Attribute {
		return &onnx.Attribute{Name: name, Type: onnx.AttrInt, I: v}
	}
	after := func(past, x string) string {
		if past == "" {
			return x
		}
		return b.node("Concat", []*onnx.Attribute{flag("axis", 2)}, past, x)
	}
	q, newKeys := heads(n.Inputs[0], "q_num_heads"), heads(n.Inputs[1], "kv_num_heads")
	k, v := after(input(n, 4), newKeys), after(input(n, 5), heads(n.Inputs[2], "kv_num_heads"))

	raw := b.op("MatMul", q, b.op("onward.SwapLast", b.op("onward.RepeatHeads", k, q)))
	if scale := floatAttr(n, "scale", 0); scale != 0 || hasAttr(n, "scale") {
		raw = b.scaled(scale, raw)
	} else {
		raw = b.op("Div", raw, b.op("Sqrt", b.sumAxis(b.filled(1, q), -1)))
	}
	capped := raw
	if limit := floatAttr(n, "softcap", 0); limit > 0 {
		limits := b.filled(limit, raw)
		capped = b.op("Mul", b.op("Tanh", b.op("Div", raw, limits)), limits)
	}
	biased := capped
	window := func(name string) int64 {
		if b.opset < 25 {
			return -1
		}
		return intAttr(n, name, -1)
	}
	causal, left, right := intAttr(n, "is_causal", 0), window("left_window_size"), window("right_window_size")
	if mask, nonpad := input(n, 3), input(n, 6); mask != "" || nonpad != "" || causal != 0 || left >= 0 || right >= 0 {
		pad := int64(0)
		if b.opset >= 24 {
			pad = 1
		}
		attrs := []*onnx.Attribute{flag("is_causal", causal), flag("left_window_size", left), flag("right_window_size", right), flag("pad_mask", pad)}
		biased = b.op("Add", capped, b.node("onward.AttentionMask", attrs, raw, newKeys, mask, nonpad))
	}
	p := b.op("onward.VisibleSoftmax", biased)
	y := b.op("MatMul", p, b.op("onward.RepeatHeads", v, p))
	y = b.node("onward.JoinHeads", []*onnx.Attribute{{Name: "factor", Type: onnx.AttrFloat, F: float32(intAttr(n, "q_num_heads", 0))}}, y, n.Inputs[0])
	mode := intAttr(n, "qk_matmul_output_mode", 0)
	if mode < 0 || mode > 3 {
		return nil, fmt.Errorf("qk_matmul_output_mode is %d, want 0 to 3", mode)
	}
	return []string{y, k, v, []string{raw, capped, biased, p}[mode]}, nil
}

func hasAttr(n *onnx.Node, name string) bool {
	for _, a := range n.Attributes {
		if a != nil && a.Name == name {
			return true
		}
	}
	return false
}

// attentionGradients are the rules of the pieces.
func attentionGradients() map[string]ruleFunc {
	return map[string]ruleFunc{
		"SplitHeads": func(b *builder, n *onnx.Node, g string) ([]string, error) {
			return []string{b.node("onward.JoinHeads", n.Attributes, g, n.Inputs[0])}, nil
		},
		"JoinHeads": func(b *builder, n *onnx.Node, g string) ([]string, error) {
			return onlyFirst(n, b.node("onward.SplitHeads", n.Attributes, g)), nil
		},
		"RepeatHeads": firstOnly(func(b *builder, x, y, g string) string { return b.op("onward.SumHeads", g, x) }),
		"SumHeads":    firstOnly(func(b *builder, x, y, g string) string { return b.op("onward.RepeatHeads", g, x) }),
		"VisibleSoftmax": unary(func(b *builder, x, y, g string) string {
			return b.op("Mul", y, b.op("Sub", g, b.sumAxis(b.op("Mul", g, y), -1)))
		}),
		"AttentionMask": func(b *builder, n *onnx.Node, g string) ([]string, error) {
			r := make([]string, len(n.Inputs))
			if mask := n.Inputs[2]; mask != "" {
				pad := []*onnx.Attribute{{Name: "pad_mask", Type: onnx.AttrInt, I: intAttr(n, "pad_mask", 0)}}
				r[2] = b.scatterBack(1, g, b.node("onward.AttentionPlaces", pad, mask, n.Inputs[0]), mask)
			}
			return r, nil
		},
	}
}
