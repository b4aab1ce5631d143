package autodiff

import "github.com/onward-ml/onward/onnx"

// gridGradients are the rules of GridSample, which is linear in the image. For the
// grid its derivatives of every order are GridSlopes: one of order k, derived by the
// grid, is one of order k + 1, and derived by the image it is a GridSlopeBack.
func gridGradients() map[string]ruleFunc {
	node := func(b *builder, op string, n *onnx.Node, order int64, in ...string) string {
		attrs := []*onnx.Attribute{{Name: "order", Type: onnx.AttrInt, I: order}}
		for _, a := range n.Attributes {
			if a.Name != "order" {
				attrs = append(attrs, a)
			}
		}
		return b.node("onward."+op, attrs, in...)
	}
	// contract sums g·s over everything but the places and the last coordinate of s;
	// g has one dimension less, and k last ones for derivatives of order k.
	contract := func(b *builder, g, s, grid string, k int64) string {
		v := b.op("Mul", b.lastOne(g), s)
		for i := range k {
			v = b.sumAxis(v, -2-i)
		}
		return b.op("onward.ReshapeTo", b.sumAxis(v, 1), grid)
	}
	slope := func(b *builder, n *onnx.Node, g string) ([]string, error) {
		k := intAttr(n, "order", 0)
		if n.OpType == "GridSlope" {
			k = intAttr(n, "order", 1)
		}
		x, grid := n.Inputs[0], n.Inputs[1]
		return []string{node(b, "GridSlopeBack", n, k, g, grid, x), contract(b, g, node(b, "GridSlope", n, k+1, x, grid), grid, k)}, nil
	}
	return map[string]ruleFunc{
		"GridSample": slope, "GridSlope": slope,
		"GridSlopeBack": func(b *builder, n *onnx.Node, g string) ([]string, error) {
			k, slopes, grid := intAttr(n, "order", 1), n.Inputs[0], n.Inputs[1]
			return []string{node(b, "GridSlope", n, k, g, grid), contract(b, slopes, node(b, "GridSlope", n, k+1, g, grid), grid, k), ""}, nil
		},
	}
}

// lastOne gives v a last dimension of 1.
func (b *builder) lastOne(v string) string { return b.op("Unsqueeze", v, b.ints(-1)) }
