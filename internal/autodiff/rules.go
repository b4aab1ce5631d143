package autodiff

import (
	"fmt"
	"maps"
	"slices"

	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/tensor"
)

// rules says how the gradient g of a node's output becomes those of its
// inputs, "" where there is none. Rules for inputs on no path to xs cost only
// nodes that nobody uses.
var rules map[string]ruleFunc

type ruleFunc = func(b *builder, n *onnx.Node, g string) ([]string, error)

// unary makes a rule from the derivative: d gets the input, the output and g.
func unary(d func(b *builder, x, y, g string) string) ruleFunc {
	return func(b *builder, n *onnx.Node, g string) ([]string, error) {
		return []string{d(b, n.Inputs[0], n.Outputs[0], g)}, nil
	}
}

// binary makes a rule for two inputs that broadcast.
func binary(da, db func(b *builder, x, y, out, g string) string) ruleFunc {
	return func(b *builder, n *onnx.Node, g string) ([]string, error) {
		if len(n.Inputs) != 2 {
			return nil, fmt.Errorf("%d inputs, want 2", len(n.Inputs))
		}
		x, y, out := n.Inputs[0], n.Inputs[1], n.Outputs[0]
		return []string{b.sumTo(da(b, x, y, out, g), x), b.sumTo(db(b, x, y, out, g), y)}, nil
	}
}

func reshapeBack(b *builder, x, _, g string) string { return b.op("onward.ReshapeTo", g, x) }

// steps are the operators whose outputs change in steps only, or not with their inputs
// at all: no gradient passes through them.
var steps = func() map[string]bool {
	r := map[string]bool{}
	for _, name := range []string{
		"Sign", "Floor", "Ceil", "Round", "Not", "And", "Or", "Greater", "Less", "Equal", "LessOrEqual", "GreaterOrEqual", "IsNaN", "IsInf",
		"ArgMax", "ArgMin", "NonZero", "OneHot", "Shape", "Size", "Constant", "ConstantOfShape",
		"AttentionPlaces", "ClassPositions", "Fill", "Positions", "Step",
	} {
		r[name] = true
	}
	return r
}()

// flat reports whether no gradient passes through a node.
func flat(n *onnx.Node) bool {
	if d := kit.NormalDomain(n.Domain); d != "" && d != kit.DomainInternal {
		return false
	}
	if n.OpType == "Cast" {
		switch tensor.DType(intAttr(n, "to", 0)) {
		case tensor.TypeFloat32, tensor.TypeFloat64, tensor.TypeFloat16, tensor.TypeBFloat16:
			return false
		}
		return true
	}
	return steps[n.OpType]
}

func init() {
	rules = map[string]ruleFunc{
		"Identity":   unary(func(b *builder, x, y, g string) string { return g }),
		"Neg":        unary(func(b *builder, x, y, g string) string { return b.op("Neg", g) }),
		"Exp":        unary(func(b *builder, x, y, g string) string { return b.op("Mul", g, y) }),
		"Log":        unary(func(b *builder, x, y, g string) string { return b.op("Div", g, x) }),
		"Sqrt":       unary(func(b *builder, x, y, g string) string { return b.op("Div", g, b.op("Add", y, y)) }),
		"Sin":        unary(func(b *builder, x, y, g string) string { return b.op("Mul", g, b.op("Cos", x)) }),
		"Cos":        unary(func(b *builder, x, y, g string) string { return b.op("Neg", b.op("Mul", g, b.op("Sin", x))) }),
		"Abs":        unary(func(b *builder, x, y, g string) string { return b.op("Mul", g, b.op("Sign", x)) }),
		"Reciprocal": unary(func(b *builder, x, y, g string) string { return b.op("Neg", b.op("Mul", g, b.op("Mul", y, y))) }),
		"Tanh": unary(func(b *builder, x, y, g string) string {
			return b.op("Sub", g, b.op("Mul", g, b.op("Mul", y, y)))
		}),
		"Sigmoid": unary(func(b *builder, x, y, g string) string {
			s := b.op("Mul", g, y)
			return b.op("Sub", s, b.op("Mul", s, y))
		}),
		"Softplus": unary(func(b *builder, x, y, g string) string { return b.op("Mul", g, b.op("Sigmoid", x)) }),
		"Erf": unary(func(b *builder, x, y, g string) string {
			return b.scaled(1.1283791670955126, b.op("Mul", g, b.op("Exp", b.op("Neg", b.op("Mul", x, x)))))
		}),
		"Relu": unary(func(b *builder, x, y, g string) string { return b.op("Mul", g, b.step(0, x)) }),
		"LeakyRelu": func(b *builder, n *onnx.Node, g string) ([]string, error) {
			return []string{b.op("Mul", g, b.step(floatAttr(n, "alpha", 0.01), n.Inputs[0]))}, nil
		},
		"Cast": func(b *builder, n *onnx.Node, g string) ([]string, error) {
			if err := b.need(15); err != nil { // CastLike
				return nil, err
			}
			return []string{b.op("CastLike", g, n.Inputs[0])}, nil
		},
		"CastLike": func(b *builder, n *onnx.Node, g string) ([]string, error) {
			return onlyFirst(n, b.op("CastLike", g, n.Inputs[0])), nil
		},

		"Add": binary(func(b *builder, x, y, out, g string) string { return g },
			func(b *builder, x, y, out, g string) string { return g }),
		"Sub": binary(func(b *builder, x, y, out, g string) string { return g },
			func(b *builder, x, y, out, g string) string { return b.op("Neg", g) }),
		"Mul": binary(func(b *builder, x, y, out, g string) string { return b.op("Mul", g, y) },
			func(b *builder, x, y, out, g string) string { return b.op("Mul", g, x) }),
		"Div": binary(func(b *builder, x, y, out, g string) string { return b.op("Div", g, y) },
			func(b *builder, x, y, out, g string) string {
				return b.op("Neg", b.op("Div", b.op("Mul", g, out), y))
			}),
		"Pow": binary(func(b *builder, x, y, out, g string) string {
			return b.op("Mul", b.op("Mul", g, y), b.op("Pow", x, b.op("Sub", y, b.filled(1, y))))
		}, func(b *builder, x, y, out, g string) string {
			return b.op("Mul", b.op("Mul", g, out), b.op("Log", x))
		}),
		"Sum": func(b *builder, n *onnx.Node, g string) ([]string, error) {
			r := make([]string, len(n.Inputs))
			for i, x := range n.Inputs {
				r[i] = b.sumTo(g, x)
			}
			return r, nil
		},
		"Where": func(b *builder, n *onnx.Node, g string) ([]string, error) {
			zero := b.filled(0, g)
			return []string{"", b.sumTo(b.op("Where", n.Inputs[0], g, zero), n.Inputs[1]), b.sumTo(b.op("Where", n.Inputs[0], zero, g), n.Inputs[2])}, nil
		},

		"MatMul": binary(func(b *builder, x, y, out, g string) string {
			return b.op("MatMul", g, b.op("onward.SwapLast", y))
		},
			func(b *builder, x, y, out, g string) string {
				return b.op("MatMul", b.op("onward.SwapLast", x), g)
			}),
		"Gemm": gemmGradient, "Einsum": einsumGradient,
		"Transpose": func(b *builder, n *onnx.Node, g string) ([]string, error) {
			i := slices.IndexFunc(n.Attributes, func(a *onnx.Attribute) bool { return a.Name == "perm" })
			if i < 0 {
				return []string{b.op("Transpose", g)}, nil // reversed dimensions, reversed again
			}
			perm := n.Attributes[i].Ints
			back := make([]int64, len(perm))
			for to, from := range perm {
				if from < 0 || from >= int64(len(perm)) {
					return nil, fmt.Errorf("perm is %v", perm)
				}
				back[from] = int64(to)
			}
			return []string{b.node("Transpose", []*onnx.Attribute{{Name: "perm", Type: onnx.AttrInts, Ints: back}}, g)}, nil
		},
		"SwapLast": unary(func(b *builder, x, y, g string) string { return b.op("onward.SwapLast", g) }),
		"Flatten":  unary(reshapeBack),
		"Reshape":  firstOnly(reshapeBack), "Squeeze": firstOnly(reshapeBack), "Unsqueeze": firstOnly(reshapeBack), "ReshapeTo": firstOnly(reshapeBack),
		"SumTo":    firstOnly(func(b *builder, x, y, g string) string { return b.op("onward.ExpandTo", g, x) }),
		"ExpandTo": firstOnly(func(b *builder, x, y, g string) string { return b.sumTo(g, x) }),
		"Expand":   firstOnly(func(b *builder, x, y, g string) string { return b.sumTo(g, x) }),
		"Scale": func(b *builder, n *onnx.Node, g string) ([]string, error) {
			return []string{b.scaled(floatAttr(n, "factor", 1), g)}, nil
		},
		"ReduceSum":  reduceGradient(false),
		"ReduceMean": reduceGradient(true),
		"Softmax": func(b *builder, n *onnx.Node, g string) ([]string, error) {
			return []string{b.op("Mul", n.Outputs[0], b.op("Sub", g, b.sumAlong(n, b.op("Mul", g, n.Outputs[0]))))}, nil
		},
		"LogSoftmax": func(b *builder, n *onnx.Node, g string) ([]string, error) {
			return []string{b.op("Sub", g, b.op("Mul", b.op("Exp", n.Outputs[0]), b.sumAlong(n, g)))}, nil
		},
	}
	maps.Copy(rules, unaryGradients())
	maps.Copy(rules, moveGradients())
	maps.Copy(rules, scatterGradients())
	maps.Copy(rules, matrixGradients())
	maps.Copy(rules, gridGradients())
	maps.Copy(rules, attentionGradients())
	maps.Copy(rules, windowGradients())
	maps.Copy(rules, reduceGradients())
	rulesOfAll["If"], rulesOfAll["Scan"] = ifGradient, scanGradient
	rulesOfAll["Attention"] = compositeOfAll(attention)
	for name, f := range compositeGradients() {
		rules[name] = composite(f)
	}
}

// firstOnly is unary for operators with further inputs, which have no gradient.
func firstOnly(d func(b *builder, x, y, g string) string) ruleFunc {
	return func(b *builder, n *onnx.Node, g string) ([]string, error) {
		r := make([]string, len(n.Inputs))
		r[0] = d(b, n.Inputs[0], n.Outputs[0], g)
		return r, nil
	}
}

// step is 1 where x is above 0, else below.
func (b *builder) step(below float32, x string) string {
	return b.node("onward.Step", []*onnx.Attribute{{Name: "factor", Type: onnx.AttrFloat, F: below}}, x)
}

// sumAlong sums v over the axis of a softmax, before opset 13 over that and all
// further axes, and keeps the dimensions.
func (b *builder) sumAlong(n *onnx.Node, v string) string {
	if b.opset < 13 {
		return b.sumFrom(v, intAttr(n, "axis", 1))
	}
	axes := b.node("Constant", []*onnx.Attribute{{Name: "value_ints", Type: onnx.AttrInts, Ints: []int64{intAttr(n, "axis", -1)}}})
	return b.op("ReduceSum", v, axes)
}

// gemmGradient differentiates Y = α·A'·B' + β·C.
func gemmGradient(b *builder, n *onnx.Node, g string) ([]string, error) {
	if len(n.Inputs) < 2 {
		return nil, fmt.Errorf("%d inputs, want 2 or 3", len(n.Inputs))
	}
	ta, tb := intAttr(n, "transA", 0) != 0, intAttr(n, "transB", 0) != 0
	alpha := floatAttr(n, "alpha", 1)
	x, w := n.Inputs[0], n.Inputs[1]
	mul := func(p, q string, tp, tq bool) string {
		attr := func(name string, v bool) *onnx.Attribute {
			a := &onnx.Attribute{Name: name, Type: onnx.AttrInt}
			if v {
				a.I = 1
			}
			return a
		}
		return b.node("Gemm", []*onnx.Attribute{attr("transA", tp), attr("transB", tq), {Name: "alpha", Type: onnx.AttrFloat, F: alpha}}, p, q)
	}
	r := make([]string, len(n.Inputs))
	if ta {
		r[0] = mul(w, g, tb, true)
	} else {
		r[0] = mul(g, w, false, !tb)
	}
	if tb {
		r[1] = mul(g, x, true, ta)
	} else {
		r[1] = mul(x, g, !ta, false)
	}
	if len(r) > 2 && n.Inputs[2] != "" {
		r[2] = b.scaled(floatAttr(n, "beta", 1), b.sumTo(g, n.Inputs[2]))
	}
	return r, nil
}

// reduceGradient spreads g over the elements that a sum, or a mean, was taken of.
// The reduction is repeated with its dimensions kept, for their shape.
func reduceGradient(mean bool) ruleFunc {
	return func(b *builder, n *onnx.Node, g string) ([]string, error) {
		x := n.Inputs[0]
		attrs := slices.DeleteFunc(slices.Clone(n.Attributes), func(a *onnx.Attribute) bool { return a.Name == "keepdims" })
		attrs = append(attrs, &onnx.Attribute{Name: "keepdims", Type: onnx.AttrInt, I: 1})
		kept := b.node(n.OpType, attrs, n.Inputs...)
		g = b.op("onward.ReshapeTo", g, kept)
		if mean {
			g = b.op("Div", g, b.sumTo(b.filled(1, x), kept))
		}
		r := make([]string, len(n.Inputs))
		r[0] = b.op("onward.ExpandTo", g, x)
		return r, nil
	}
}
