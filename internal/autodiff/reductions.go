package autodiff

import (
	"slices"

	"github.com/onward-ml/onward/onnx"
)

// kept repeats a reduction with its dimensions kept, for their shape.
func (b *builder) kept(n *onnx.Node) string {
	m := *n
	m.Attributes = slices.DeleteFunc(slices.Clone(n.Attributes), func(a *onnx.Attribute) bool { return a.Name == "keepdims" })
	m.Attributes = append(m.Attributes, &onnx.Attribute{Name: "keepdims", Type: onnx.AttrInt, I: 1})
	return b.again(&m)[0]
}

// share gives each element of x that equals the element of y that it was reduced
// or broadcast to its part of g, which has the shape of y.
func (b *builder) share(x, y, g string) string {
	wide := b.op("onward.ExpandTo", y, x)
	ones, zeros := b.filled(1, x), b.filled(0, x)
	same := b.op("Equal", x, wide)
	count := b.sumTo(b.op("Where", same, ones, zeros), y)
	return b.op("Where", same, b.op("onward.ExpandTo", b.op("Div", g, count), x), zeros)
}

func reduceGradients() map[string]ruleFunc {
	extreme := func(b *builder, n *onnx.Node, g string) ([]string, error) {
		if err := b.need(11); err != nil { // Equal of floating-point numbers, Where
			return nil, err
		}
		y := b.kept(n)
		return onlyFirst(n, b.share(n.Inputs[0], y, b.op("onward.ReshapeTo", g, y))), nil
	}
	// extremes shares g among the inputs of an element-wise Max or Min that have it.
	extremes := func(b *builder, n *onnx.Node, g string) ([]string, error) {
		if err := b.need(11); err != nil {
			return nil, err
		}
		y := n.Outputs[0]
		ones, zeros := b.filled(1, y), b.filled(0, y)
		same, count := make([]string, len(n.Inputs)), ""
		for i, x := range n.Inputs {
			same[i] = b.op("Equal", b.op("onward.ExpandTo", x, y), y)
			one := b.op("Where", same[i], ones, zeros)
			if count != "" {
				one = b.op("Add", count, one)
			}
			count = one
		}
		part := b.op("Div", g, count)
		r := make([]string, len(n.Inputs))
		for i, x := range n.Inputs {
			r[i] = b.sumTo(b.op("Where", same[i], part, zeros), x)
		}
		return r, nil
	}
	return map[string]ruleFunc{
		"ReduceMax": extreme, "ReduceMin": extreme, "Max": extremes, "Min": extremes,
		"GlobalMaxPool": func(b *builder, n *onnx.Node, g string) ([]string, error) {
			if err := b.need(11); err != nil {
				return nil, err
			}
			return []string{b.share(n.Inputs[0], n.Outputs[0], g)}, nil
		},
		"ReduceProd": func(b *builder, n *onnx.Node, g string) ([]string, error) {
			if err := b.need(11); err != nil {
				return nil, err
			}
			// The product of the other elements: without zeros it is that of all over
			// the element; the other zeros make it zero.
			x := n.Inputs[0]
			zeros, ones := b.filled(0, x), b.filled(1, x)
			zero := b.op("Equal", x, zeros)
			rest := b.op("Where", zero, ones, x)
			m := *n
			m.Inputs = slices.Clone(n.Inputs)
			m.Inputs[0] = rest
			product := b.kept(&m)
			isZero := b.op("Where", zero, ones, zeros)
			others := b.op("Sub", b.op("onward.ExpandTo", b.sumTo(isZero, product), x), isZero)
			d := b.op("Where", b.op("Equal", others, zeros), b.op("Div", b.op("onward.ExpandTo", product, x), rest), zeros)
			return onlyFirst(n, b.op("Mul", d, b.op("onward.ExpandTo", b.op("onward.ReshapeTo", g, product), x))), nil
		},
		"ReduceLogSumExp": func(b *builder, n *onnx.Node, g string) ([]string, error) {
			x, y := n.Inputs[0], b.kept(n)
			p := b.op("Exp", b.op("Sub", x, b.op("onward.ExpandTo", y, x)))
			return onlyFirst(n, b.op("Mul", p, b.op("onward.ExpandTo", b.op("onward.ReshapeTo", g, y), x))), nil
		},
		"Clip": func(b *builder, n *onnx.Node, g string) ([]string, error) {
			if err := b.need(11); err != nil {
				return nil, err
			}
			x, y := n.Inputs[0], n.Outputs[0]
			return onlyFirst(n, b.op("Where", b.op("Equal", x, y), g, b.filled(0, x))), nil
		},
		"SumAxis": firstOnly(func(b *builder, x, y, g string) string { return b.op("onward.ExpandTo", g, x) }),
		"SumFrom": firstOnly(func(b *builder, x, y, g string) string { return b.op("onward.ExpandTo", g, x) }),
	}
}

// sumFrom sums v over the dimensions from an axis on and keeps them.
func (b *builder) sumFrom(v string, axis int64) string {
	return b.node("onward.SumFrom", []*onnx.Attribute{{Name: "factor", Type: onnx.AttrFloat, F: float32(axis)}}, v)
}

// sumAxis sums v over one dimension and keeps it.
func (b *builder) sumAxis(v string, axis int64) string {
	return b.node("onward.SumAxis", []*onnx.Attribute{{Name: "factor", Type: onnx.AttrFloat, F: float32(axis)}}, v)
}

// sumAxes sums v over dimensions, all if there are none, and keeps them.
func (b *builder) sumAxes(v string, axes []int64) string {
	if len(axes) == 0 {
		return b.sumFrom(v, 0)
	}
	for _, a := range axes {
		v = b.sumAxis(v, a)
	}
	return v
}

func unaryGradients() map[string]ruleFunc {
	// root is √(1 ± x²).
	root := func(b *builder, op, x string) string {
		q := b.op("Mul", x, x)
		return b.op("Sqrt", b.op(op, b.filled(1, x), q))
	}
	return map[string]ruleFunc{
		"Tan": unary(func(b *builder, x, y, g string) string {
			return b.op("Add", g, b.op("Mul", g, b.op("Mul", y, y)))
		}),
		"Asin": unary(func(b *builder, x, y, g string) string { return b.op("Div", g, root(b, "Sub", x)) }),
		"Acos": unary(func(b *builder, x, y, g string) string { return b.op("Neg", b.op("Div", g, root(b, "Sub", x))) }),
		"Atan": unary(func(b *builder, x, y, g string) string {
			return b.op("Div", g, b.op("Add", b.filled(1, x), b.op("Mul", x, x)))
		}),
		"Sinh":  unary(func(b *builder, x, y, g string) string { return b.op("Mul", g, b.op("Cosh", x)) }),
		"Cosh":  unary(func(b *builder, x, y, g string) string { return b.op("Mul", g, b.op("Sinh", x)) }),
		"Asinh": unary(func(b *builder, x, y, g string) string { return b.op("Div", g, root(b, "Add", x)) }),
		"Acosh": unary(func(b *builder, x, y, g string) string {
			return b.op("Div", g, b.op("Sqrt", b.op("Sub", b.op("Mul", x, x), b.filled(1, x))))
		}),
		"Atanh": unary(func(b *builder, x, y, g string) string {
			return b.op("Div", g, b.op("Sub", b.filled(1, x), b.op("Mul", x, x)))
		}),
	}
}
