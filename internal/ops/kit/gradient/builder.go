package gradient

import (
	"strings"

	"github.com/onward-ml/onward/internal/fail"
)

// Builder emits the nodes of gradient rules.
type Builder struct {
	Opset int // of ai.onnx
	Tape  Tape
}

// Tape is where a Builder appends nodes to.
type Tape interface {
	Append(n *Node)

	// Fresh returns a name that no value has.
	Fresh() string

	// Differentiate appends the nodes that compute the gradients of the inputs of n from
	// those of its outputs, by the gradient of n's operator.
	Differentiate(n *Node, gs []string) ([]string, error)
}

// Need returns an error before an opset.
func (b *Builder) Need(opset int) error {
	if b.Opset < opset {
		return fail.Errorf("is differentiable since opset %d, the model imports %d", opset, b.Opset)
	}
	return nil
}

// Node appends a node with one output and returns the output's name. op is a name of
// ai.onnx, or of the engine's own domain: onward.SumTo.
func (b *Builder) Node(op string, attrs Attrs, in ...string) string {
	n := &Node{OpType: op, Inputs: in, Outputs: []string{b.Tape.Fresh()}, Attrs: attrs}
	if own, ok := strings.CutPrefix(op, Domain+"."); ok {
		n.Domain, n.OpType = Domain, own
	}
	b.Tape.Append(n)
	return n.Outputs[0]
}

// Op is Node without attributes.
//
//go:noinline
func (b *Builder) Op(op string, in ...string) string { return b.Node(op, nil, in...) }

// Again repeats a node with other inputs, as many as are given, and returns its outputs.
func (b *Builder) Again(n *Node, in ...string) []string {
	m := n.WithInputs(in...)
	m.Outputs = make([]string, len(n.Outputs))
	for k := range m.Outputs {
		m.Outputs[k] = b.Tape.Fresh()
	}
	b.Tape.Append(m)
	return m.Outputs
}

// Factored is Node with the attribute factor, which the engine's own operators have.
//
//go:noinline
func (b *Builder) Factored(op string, factor float32, in ...string) string {
	return b.Node(op, Attrs{"factor": factor}, in...)
}

// Ints returns a list of integers, from opset 12 on.
func (b *Builder) Ints(v ...int64) string {
	return b.Node("Constant", Attrs{"value_ints": v})
}

// Filled returns a tensor of the shape of x with all elements v.
func (b *Builder) Filled(v float32, x string) string {
	return b.Factored("onward.Fill", v, x)
}

// Scaled returns v·x.
func (b *Builder) Scaled(v float32, x string) string {
	if v == 1 {
		return x
	}
	return b.Factored("onward.Scale", v, x)
}

// Plus returns x + v.
func (b *Builder) Plus(x string, v float32) string {
	return b.Op("Add", x, b.Filled(v, x))
}

// Step returns 1 where x is above 0, else below.
func (b *Builder) Step(below float32, x string) string {
	return b.Factored("onward.Step", below, x)
}

// Negative returns min(x, 0).
func (b *Builder) Negative(x string) string {
	return b.Op("Neg", b.Op("Relu", b.Op("Neg", x)))
}

// Clamped returns min(max(α·x + β, 0), 1).
func (b *Builder) Clamped(x string, alpha, beta float32) string {
	z := b.Plus(b.Scaled(alpha, x), beta)
	return b.Op("Sub", b.Op("Relu", z), b.Op("Relu", b.Plus(z, -1)))
}

// RootOf returns √(1 + x²) with "Add" and √(1 − x²) with "Sub".
func (b *Builder) RootOf(op, x string) string {
	q := b.Op("Mul", x, x)
	return b.Op("Sqrt", b.Op(op, b.Filled(1, x), q))
}

// SumTo sums g over the dimensions in which like was broadcast.
func (b *Builder) SumTo(g, like string) string { return b.Op("onward.SumTo", g, like) }

// SumAlong sums v over the axis of a softmax, before opset 13 over that and all further
// axes, and keeps the dimensions.
func (b *Builder) SumAlong(n *Node, v string) string {
	if b.Opset < 13 {
		return b.SumFrom(v, n.Attrs.Int("axis", 1))
	}
	return b.Op("ReduceSum", v, b.Ints(n.Attrs.Int("axis", -1)))
}

// SumFrom sums v over the dimensions from an axis on, with keepdims.
func (b *Builder) SumFrom(v string, axis int64) string {
	return b.Factored("onward.SumFrom", float32(axis), v)
}

// SumAxis sums v over one dimension, with keepdims.
func (b *Builder) SumAxis(v string, axis int64) string {
	return b.Factored("onward.SumAxis", float32(axis), v)
}

// Kept repeats a reduction with keepdims, to get the shape.
func (b *Builder) Kept(n *Node) string {
	m := *n
	m.Attrs = n.Attrs.With("keepdims", int64(1))
	return b.Again(&m)[0]
}

// Share distributes g, which has the shape of y, to x, which was reduced or broadcast to y.
// Elements of x that equal their element of y get equal parts.
func (b *Builder) Share(x, y, g string) string {
	wide := b.Op("onward.ExpandTo", y, x)
	ones, zeros := b.Filled(1, x), b.Filled(0, x)
	same := b.Op("Equal", x, wide)
	count := b.SumTo(b.Op("Where", same, ones, zeros), y)
	return b.Op("Where", same, b.Op("onward.ExpandTo", b.Op("Div", g, count), x), zeros)
}

// Positions numbers the elements of x from 1 if factor is 1, or numbers all of them 0 if
// it is 0.
func (b *Builder) Positions(x string, factor float32) string {
	return b.Factored("onward.Positions", factor, x)
}

// ScatterBack adds the elements of g to those of a tensor like x from which they were
// taken; from numbers these beginning with first.
func (b *Builder) ScatterBack(first float32, g, from, x string) string {
	return b.Factored("onward.ScatterBack", first, g, from, x)
}

// GatherBack returns the elements of x that from numbers beginning with 1.
func (b *Builder) GatherBack(x, from string) string {
	return b.Factored("onward.GatherBack", 1, x, from)
}

// Normal returns x with mean 0 and variance 1 over the elements that sum sums.
func (b *Builder) Normal(x string, epsilon float32, sum func(v string) string) string {
	count := sum(b.Filled(1, x))
	d := b.Op("Sub", x, b.Op("Div", sum(x), count))
	return b.Op("Div", d, b.Op("Sqrt", b.Plus(b.Op("Div", sum(b.Op("Mul", d, d)), count), epsilon)))
}

// ScaledAndShifted returns x·scale + bias, with each in the shape of x by wide; both may
// be "".
func (b *Builder) ScaledAndShifted(x, scale, bias string, wide func(v string) string) string {
	if scale != "" {
		x = b.Op("Mul", x, wide(scale))
	}
	if bias != "" {
		x = b.Op("Add", x, wide(bias))
	}
	return x
}

// ChannelsLike returns a function that broadcasts a vector of channels to the shape of x.
func (b *Builder) ChannelsLike(x string) func(v string) string {
	return func(v string) string { return b.Op("onward.ChannelExpand", v, x) }
}

// Matrices appends two dimensions of size 1 to numbers, one for each matrix.
func (b *Builder) Matrices(v string) string {
	if b.Opset < 13 {
		return b.Node("Unsqueeze", Attrs{"axes": []int64{-2, -1}}, v)
	}
	return b.Op("Unsqueeze", v, b.Ints(-2, -1))
}

// Reduced is the gradient of f applied to the sum of each element's function.
func Reduced(each, f func(b *Builder, v string) string) *Gradient {
	return Decomposition(func(b *Builder, n *Node) (string, error) {
		like := b.Kept(n)
		return b.Op("onward.ReshapeTo", f(b, b.SumTo(each(b, n.Inputs[0]), like)), n.Outputs[0]), nil
	})
}

// Extreme is the gradient of ReduceMax and ReduceMin: equal elements share it.
var Extreme = Rule(func(b *Builder, n *Node, g string) ([]string, error) {
	if err := b.Need(11); err != nil { // Equal of floating-point numbers, Where
		return nil, err
	}
	y := b.Kept(n)
	return n.First(b.Share(n.Inputs[0], y, b.Op("onward.ReshapeTo", g, y))), nil
})

// Extremes is the gradient of Max and Min: equal inputs share it.
var Extremes = Rule(func(b *Builder, n *Node, g string) ([]string, error) {
	if err := b.Need(11); err != nil {
		return nil, err
	}
	y := n.Outputs[0]
	ones, zeros := b.Filled(1, y), b.Filled(0, y)
	same, count := make([]string, len(n.Inputs)), ""
	for i, x := range n.Inputs {
		same[i] = b.Op("Equal", b.Op("onward.ExpandTo", x, y), y)
		one := b.Op("Where", same[i], ones, zeros)
		if count != "" {
			one = b.Op("Add", count, one)
		}
		count = one
	}
	part := b.Op("Div", g, count)
	r := make([]string, len(n.Inputs))
	for i, x := range n.Inputs {
		r[i] = b.SumTo(b.Op("Where", same[i], part, zeros), x)
	}
	return r, nil
})

// Sum is the gradient of ReduceSum, or of ReduceMean. The reduction is repeated
// with its dimensions kept, for their shape.
func Sum(mean bool) *Gradient {
	return Rule(func(b *Builder, n *Node, g string) ([]string, error) {
		x, kept := n.Inputs[0], b.Kept(n)
		g = b.Op("onward.ReshapeTo", g, kept)
		if mean {
			g = b.Op("Div", g, b.SumTo(b.Filled(1, x), kept))
		}
		return n.First(b.Op("onward.ExpandTo", g, x)), nil
	})
}

// Nearest is Move for the resizing operators in their mode nearest.
var Nearest = Rule(func(b *Builder, n *Node, g string) ([]string, error) {
	if mode := n.Attrs.Text("mode"); mode != "" && mode != "nearest" {
		return nil, fail.Errorf("mode %s is not differentiable, want nearest", mode)
	}
	return MovedBack(b, n, g)
})

// Scatter is the gradient of an operator that puts updates into data. An update
// goes to the element that the operator gather takes for the same indices.
func Scatter(gather string) *Gradient {
	return Rule(func(b *Builder, n *Node, g string) ([]string, error) {
		if len(n.Inputs) != 3 {
			return nil, fail.Errorf("node has %d inputs, want 3", len(n.Inputs))
		}
		data, indices, updates := n.Inputs[0], n.Inputs[1], n.Inputs[2]
		reduction := n.Attrs.Text("reduction")
		if reduction == "" || reduction == "none" {
			kept := b.Again(n, b.Positions(data, 1), indices, b.Positions(updates, 0))[0]
			put := b.Again(n, b.Positions(data, 0), indices, b.Positions(updates, 1))[0]
			return []string{b.ScatterBack(1, g, kept, data), "", b.ScatterBack(1, g, put, updates)}, nil
		}
		at := b.Node(gather, n.Attrs.Only("axis"), b.Positions(data, 1), indices)
		// taken returns the elements that the updates go to, added sums the updates there.
		taken := func(v string) string { return b.GatherBack(v, at) }
		added := func(u string) string { return b.ScatterBack(1, u, at, data) }
		switch reduction {
		case "add":
			return []string{g, "", taken(g)}, nil
		case "max", "min":
			// Equal elements share the gradient.
			y := n.Outputs[0]
			mark := func(x, y string) (same, one string) {
				same = b.Op("Equal", x, y)
				return same, b.Op("Where", same, b.Filled(1, x), b.Filled(0, x))
			}
			sameData, oneData := mark(data, y)
			sameUpdate, oneUpdate := mark(updates, taken(y))
			part := b.Op("Div", g, b.Op("Add", oneData, added(oneUpdate)))
			toData := b.Op("Where", sameData, part, b.Filled(0, data))
			return []string{toData, "", b.Op("Where", sameUpdate, taken(part), b.Filled(0, updates))}, nil
		case "mul":
			// The derivative by a factor is the product of the other factors: the product of
			// all factors but zeros, divided by this one, and 0 if another factor is 0.
			split := func(x string) (rest, zero string) {
				none := b.Filled(0, x)
				is := b.Op("Equal", x, none)
				return b.Op("Where", is, b.Filled(1, x), x), b.Op("Where", is, b.Filled(1, x), none)
			}
			restData, zeroData := split(data)
			restUpdate, zeroUpdate := split(updates)
			product := b.Again(n, restData, indices, restUpdate)[0]
			zeros := b.Op("Add", zeroData, added(zeroUpdate))
			others := func(rest, product, zeros, zero, g string) string {
				none := b.Filled(0, rest)
				d := b.Op("Where", b.Op("Equal", b.Op("Sub", zeros, zero), none), b.Op("Div", product, rest), none)
				return b.Op("Mul", d, g)
			}
			toData := others(restData, product, zeros, zeroData, g)
			return []string{toData, "", others(restUpdate, taken(product), taken(zeros), zeroUpdate, taken(g))}, nil
		}
		return nil, fail.Errorf("reduction %q is not differentiable", reduction)
	})
}
