package gradient

// GridSample is linear in the image. Its derivatives of every order by the grid are
// GridSampleGrads: one of order k, derived by the grid, is one of order k + 1, and derived by
// the image it is a GridSampleGradBack.

// Grid is the gradient of GridSample, with order 0, and of GridSampleGrad, with the
// order that its attribute is by default.
func Grid(order int64) *Gradient {
	return Rule(func(b *Builder, n *Node, g string) ([]string, error) {
		k, x, grid := n.Attrs.Int("order", order), n.Inputs[0], n.Input(1)
		back := b.gridNode("GridSampleGradBack", n, k, g, grid, x)
		return []string{back, b.contractGrid(g, b.gridNode("GridSampleGrad", n, k+1, x, grid), grid, k)}, nil
	})
}

// GridBack is the gradient of GridSampleGradBack.
var GridBack = Rule(func(b *Builder, n *Node, g string) ([]string, error) {
	k, derivatives, grid := n.Attrs.Int("order", 1), n.Inputs[0], n.Input(1)
	x := b.gridNode("GridSampleGrad", n, k, g, grid)
	return []string{x, b.contractGrid(derivatives, b.gridNode("GridSampleGrad", n, k+1, g, grid), grid, k), ""}, nil
})

func (b *Builder) gridNode(op string, n *Node, order int64, in ...string) string {
	return b.Node(Domain+"."+op, n.Attrs.With("order", order), in...)
}

// contractGrid sums g·s over all dimensions but those of the grid; g has one dimension
// less than s, and k last ones for derivatives of order k.
func (b *Builder) contractGrid(g, s, grid string, k int64) string {
	v := b.Op("Mul", b.Op("Unsqueeze", g, b.Ints(-1)), s)
	for i := range k {
		v = b.SumAxis(v, -2-i)
	}
	return b.Op("onward.ReshapeTo", b.SumAxis(v, 1), grid)
}
