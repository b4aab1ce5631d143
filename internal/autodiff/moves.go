package autodiff

import (
	"fmt"
	"slices"

	"github.com/onward-ml/onward/onnx"
)

// rulesOfAll are the rules for operators of which more outputs than the
// first are differentiated: gs has the gradient of each, "" for none.
var rulesOfAll = map[string]func(b *builder, n *onnx.Node, gs []string) ([]string, error){
	"Split": func(b *builder, n *onnx.Node, gs []string) ([]string, error) {
		r := make([]string, len(n.Inputs))
		from := b.again(n, b.positions(n.Inputs[0], 1))
		for k, g := range gs {
			if g == "" {
				continue
			}
			d := b.scatterBack(1, g, from[k], n.Inputs[0])
			if r[0] != "" {
				d = b.op("Add", r[0], d)
			}
			r[0] = d
		}
		return r, nil
	},
	"SoftmaxCrossEntropyLoss": crossEntropyGradient,
	"TopK": func(b *builder, n *onnx.Node, gs []string) ([]string, error) {
		if err := b.need(11); err != nil {
			return nil, err
		}
		if len(n.Outputs) < 2 || n.Outputs[1] == "" {
			n = &onnx.Node{OpType: n.OpType, Inputs: n.Inputs, Outputs: []string{b.fresh(), b.fresh()}, Attributes: n.Attributes}
			b.nodes = append(b.nodes, n)
		}
		axis := []*onnx.Attribute{{Name: "axis", Type: onnx.AttrInt, I: intAttr(n, "axis", -1)}}
		from := b.node("GatherElements", axis, b.positions(n.Inputs[0], 1), n.Outputs[1])
		return onlyFirst(n, b.scatterBack(1, gs[0], from, n.Inputs[0])), nil
	},
}

func onlyFirst(n *onnx.Node, d string) []string {
	r := make([]string, len(n.Inputs))
	r[0] = d
	return r
}

// need fails before an opset.
func (b *builder) need(opset int) error {
	if b.opset < opset {
		return fmt.Errorf("is differentiated from opset %d on, the model imports %d", opset, b.opset)
	}
	return nil
}

// positions numbers the elements of x from 1, or gives all of them 0.
func (b *builder) positions(x string, factor float32) string {
	return b.node("onward.Positions", []*onnx.Attribute{{Name: "factor", Type: onnx.AttrFloat, F: factor}}, x)
}

// scatterBack adds the elements of g to those of a tensor like x from which they
// were taken; from numbers these beginning with first.
func (b *builder) scatterBack(first float32, g, from, x string) string {
	return b.node("onward.ScatterBack", []*onnx.Attribute{{Name: "factor", Type: onnx.AttrFloat, F: first}}, g, from, x)
}

// again repeats a node with other inputs, as many as are given, and returns its
// outputs.
func (b *builder) again(n *onnx.Node, in ...string) []string {
	m := &onnx.Node{OpType: n.OpType, Domain: n.Domain, Attributes: n.Attributes, Inputs: slices.Clone(n.Inputs)}
	copy(m.Inputs, in)
	for range n.Outputs {
		m.Outputs = append(m.Outputs, b.fresh())
	}
	b.nodes = append(b.nodes, m)
	return m.Outputs
}

// moveGradients are the rules of operators that only move the elements of their
// first input. What they do with the numbers of the elements tells where each
// element of the output is from.
func moveGradients() map[string]ruleFunc {
	moved := func(b *builder, n *onnx.Node, g string) ([]string, error) {
		x := n.Inputs[0]
		return onlyFirst(n, b.scatterBack(1, g, b.again(n, b.positions(x, 1))[0], x)), nil
	}
	nearest := func(b *builder, n *onnx.Node, g string) ([]string, error) {
		if mode := stringAttr(n, "mode"); mode != "" && mode != "nearest" {
			return nil, fmt.Errorf("mode %s is not differentiated, only nearest", mode)
		}
		return moved(b, n, g)
	}
	r := map[string]ruleFunc{
		"Concat": func(b *builder, n *onnx.Node, g string) ([]string, error) {
			none := make([]string, len(n.Inputs))
			for i, x := range n.Inputs {
				none[i] = b.positions(x, 0)
			}
			r := make([]string, len(n.Inputs))
			for i, x := range n.Inputs {
				in := slices.Clone(none)
				in[i] = b.positions(x, 1)
				r[i] = b.scatterBack(1, g, b.again(n, in...)[0], x)
			}
			return r, nil
		},
		"Pad": func(b *builder, n *onnx.Node, g string) ([]string, error) {
			// Padding with a value: element 0, which is none.
			m := *n
			m.Attributes = slices.DeleteFunc(slices.Clone(n.Attributes), func(a *onnx.Attribute) bool { return a.Name == "value" })
			m.Inputs = slices.Clone(n.Inputs)
			if len(m.Inputs) > 2 {
				m.Inputs[2] = ""
			}
			return moved(b, &m, g)
		},
		"Resize": nearest, "Upsample": nearest,
		"CumSum": func(b *builder, n *onnx.Node, g string) ([]string, error) {
			m := *n
			m.Attributes = slices.DeleteFunc(slices.Clone(n.Attributes), func(a *onnx.Attribute) bool { return a.Name == "reverse" })
			m.Attributes = append(m.Attributes, &onnx.Attribute{Name: "reverse", Type: onnx.AttrInt, I: 1 - min(1, intAttr(n, "reverse", 0))})
			return onlyFirst(n, b.again(&m, g)[0]), nil
		},
		"ScatterBack": func(b *builder, n *onnx.Node, g string) ([]string, error) {
			return onlyFirst(n, b.node("onward.GatherBack", n.Attributes, g, n.Inputs[1])), nil
		},
		"GatherBack": func(b *builder, n *onnx.Node, g string) ([]string, error) {
			return onlyFirst(n, b.node("onward.ScatterBack", n.Attributes, g, n.Inputs[1], n.Inputs[0])), nil
		},
	}
	for _, name := range []string{"Gather", "GatherElements", "GatherND", "Slice", "Tile", "Trilu", "DepthToSpace", "SpaceToDepth", "ReverseSequence", "Compress", "CenterCropPad"} {
		r[name] = moved
	}
	return r
}
