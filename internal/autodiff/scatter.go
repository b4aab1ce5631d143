package autodiff

import (
	"fmt"
	"slices"

	"github.com/onward-ml/onward/onnx"
)

// scatterGradients are the rules of operators that put updates into data. An update
// goes to the place that a gather with the same indices takes.
func scatterGradients() map[string]ruleFunc {
	scatter := func(gather string) ruleFunc {
		return func(b *builder, n *onnx.Node, g string) ([]string, error) {
			if len(n.Inputs) != 3 {
				return nil, fmt.Errorf("%d inputs, want 3", len(n.Inputs))
			}
			data, indices, updates := n.Inputs[0], n.Inputs[1], n.Inputs[2]
			reduction := stringAttr(n, "reduction")
			if reduction == "" || reduction == "none" {
				kept := b.again(n, b.positions(data, 1), indices, b.positions(updates, 0))[0]
				put := b.again(n, b.positions(data, 0), indices, b.positions(updates, 1))[0]
				return []string{b.scatterBack(1, g, kept, data), "", b.scatterBack(1, g, put, updates)}, nil
			}
			axis := slices.DeleteFunc(slices.Clone(n.Attributes), func(a *onnx.Attribute) bool { return a.Name != "axis" })
			at := b.node(gather, axis, b.positions(data, 1), indices)
			// taken is what stands where the updates go, added their sums there.
			taken := func(v string) string {
				return b.node("onward.GatherBack", []*onnx.Attribute{{Name: "factor", Type: onnx.AttrFloat, F: 1}}, v, at)
			}
			added := func(u string) string { return b.scatterBack(1, u, at, data) }
			switch reduction {
			case "add":
				return []string{g, "", taken(g)}, nil
			case "max", "min":
				// Equal ones share the gradient.
				y := n.Outputs[0]
				mark := func(x, y string) (same, one string) {
					same = b.op("Equal", x, y)
					return same, b.op("Where", same, b.filled(1, x), b.filled(0, x))
				}
				sameData, oneData := mark(data, y)
				sameUpdate, oneUpdate := mark(updates, taken(y))
				part := b.op("Div", g, b.op("Add", oneData, added(oneUpdate)))
				return []string{b.op("Where", sameData, part, b.filled(0, data)), "", b.op("Where", sameUpdate, taken(part), b.filled(0, updates))}, nil
			case "mul":
				// The product of the other factors: without zeros it is that of all over
				// the factor; other zeros make it zero.
				split := func(x string) (rest, zero string) {
					none := b.filled(0, x)
					is := b.op("Equal", x, none)
					return b.op("Where", is, b.filled(1, x), x), b.op("Where", is, b.filled(1, x), none)
				}
				restData, zeroData := split(data)
				restUpdate, zeroUpdate := split(updates)
				product := b.again(n, restData, indices, restUpdate)[0]
				zeros := b.op("Add", zeroData, added(zeroUpdate))
				others := func(rest, product, zeros, zero, g string) string {
					none := b.filled(0, rest)
					d := b.op("Where", b.op("Equal", b.op("Sub", zeros, zero), none), b.op("Div", product, rest), none)
					return b.op("Mul", d, g)
				}
				return []string{others(restData, product, zeros, zeroData, g), "", others(restUpdate, taken(product), taken(zeros), zeroUpdate, taken(g))}, nil
			}
			return nil, fmt.Errorf("reduction %q is not differentiated", reduction)
		}
	}
	return map[string]ruleFunc{"ScatterElements": scatter("GatherElements"), "Scatter": scatter("GatherElements"), "ScatterND": scatter("GatherND")}
}
