package autodiff

import (
	"fmt"
	"math"

	"github.com/onward-ml/onward/onnx"
)

// composite makes a rule of an operator from nodes that compute the same as its
// first output: their gradients are its gradients.
func composite(f func(b *builder, n *onnx.Node) (string, error)) ruleFunc {
	all := compositeOfAll(func(b *builder, n *onnx.Node) ([]string, error) {
		y, err := f(b, n)
		return []string{y}, err
	})
	return func(b *builder, n *onnx.Node, g string) ([]string, error) { return all(b, n, []string{g}) }
}

// compositeOfAll is composite for several outputs.
func compositeOfAll(f func(b *builder, n *onnx.Node) ([]string, error)) func(b *builder, n *onnx.Node, gs []string) ([]string, error) {
	return func(b *builder, n *onnx.Node, gs []string) ([]string, error) {
		from := len(b.nodes)
		ys, err := f(b, n)
		if err != nil {
			return nil, err
		}
		path := append([]*onnx.Node{}, b.nodes[from:]...)
		active := map[string]bool{}
		for _, in := range n.Inputs {
			active[in] = in != ""
		}
		for _, p := range path {
			for _, out := range p.Outputs {
				active[out] = true
			}
		}
		grad := map[string]string{}
		for k, g := range gs {
			if g != "" {
				grad[ys[k]] = g
			}
		}
		if err := b.backward(path, grad, active); err != nil {
			return nil, err
		}
		r := make([]string, len(n.Inputs))
		for i, in := range n.Inputs {
			r[i] = grad[in]
			delete(grad, in) // an input that comes twice has its gradient once
		}
		return r, nil
	}
}

func input(n *onnx.Node, i int) string {
	if i < len(n.Inputs) {
		return n.Inputs[i]
	}
	return ""
}

// negative is min(x, 0).
func (b *builder) negative(x string) string { return b.op("Neg", b.op("Relu", b.op("Neg", x))) }

// plus is x + v.
func (b *builder) plus(x string, v float32) string { return b.op("Add", x, b.filled(v, x)) }

// clamped is min(max(α·x + β, 0), 1).
func (b *builder) clamped(x string, alpha, beta float32) string {
	z := b.plus(b.scaled(alpha, x), beta)
	return b.op("Sub", b.op("Relu", z), b.op("Relu", b.plus(z, -1)))
}

// normal is x with mean 0 and variance 1 over what sum sums.
func (b *builder) normal(x string, epsilon float32, sum func(v string) string) string {
	count := sum(b.filled(1, x))
	d := b.op("Sub", x, b.op("Div", sum(x), count))
	return b.op("Div", d, b.op("Sqrt", b.plus(b.op("Div", sum(b.op("Mul", d, d)), count), epsilon)))
}

// affine is x·scale + bias, each in the shape of x by wide; they may be missing.
func (b *builder) affine(x, scale, bias string, wide func(v string) string) string {
	if scale != "" {
		x = b.op("Mul", x, wide(scale))
	}
	if bias != "" {
		x = b.op("Add", x, wide(bias))
	}
	return x
}

func compositeGradients() map[string]func(b *builder, n *onnx.Node) (string, error) {
	type build = func(b *builder, n *onnx.Node) (string, error)
	one := func(f func(b *builder, n *onnx.Node, x string) string) build {
		return func(b *builder, n *onnx.Node) (string, error) { return f(b, n, n.Inputs[0]), nil }
	}
	// reduced is a reduction by f of the sum of what each makes of the elements.
	reduced := func(each, f func(b *builder, v string) string) build {
		return func(b *builder, n *onnx.Node) (string, error) {
			like := b.kept(n)
			return b.op("onward.ReshapeTo", f(b, b.sumTo(each(b, n.Inputs[0]), like)), n.Outputs[0]), nil
		}
	}
	same := func(b *builder, v string) string { return v }
	square := func(b *builder, v string) string { return b.op("Mul", v, v) }
	named := func(op string) func(b *builder, v string) string {
		return func(b *builder, v string) string { return b.op(op, v) }
	}
	channelsLike := func(b *builder, x string) func(v string) string {
		return func(v string) string { return b.op("onward.ChannelExpand", v, x) }
	}
	return map[string]build{
		"Elu": one(func(b *builder, n *onnx.Node, x string) string {
			return b.op("Add", b.op("Relu", x), b.scaled(floatAttr(n, "alpha", 1), b.plus(b.op("Exp", b.negative(x)), -1)))
		}),
		"Selu": one(func(b *builder, n *onnx.Node, x string) string {
			alpha, gamma := floatAttr(n, "alpha", 1.67326319217681884765625), floatAttr(n, "gamma", 1.05070102214813232421875)
			return b.scaled(gamma, b.op("Add", b.op("Relu", x), b.scaled(alpha, b.plus(b.op("Exp", b.negative(x)), -1))))
		}),
		"Celu": one(func(b *builder, n *onnx.Node, x string) string {
			alpha := floatAttr(n, "alpha", 1)
			return b.op("Add", b.op("Relu", x), b.scaled(alpha, b.plus(b.op("Exp", b.op("Div", b.negative(x), b.filled(alpha, x))), -1)))
		}),
		"Gelu": one(func(b *builder, n *onnx.Node, x string) string {
			half := b.op("Div", x, b.filled(2, x))
			if stringAttr(n, "approximate") == "tanh" {
				cube := b.op("Mul", x, b.op("Mul", x, x))
				inner := b.scaled(float32(math.Sqrt(2/math.Pi)), b.op("Add", x, b.scaled(0.044715, cube)))
				return b.op("Mul", half, b.plus(b.op("Tanh", inner), 1))
			}
			return b.op("Mul", half, b.plus(b.op("Erf", b.op("Div", x, b.op("Sqrt", b.filled(2, x)))), 1))
		}),
		"Mish": one(func(b *builder, n *onnx.Node, x string) string {
			return b.op("Mul", x, b.op("Tanh", b.op("Softplus", x)))
		}),
		"Softsign": one(func(b *builder, n *onnx.Node, x string) string {
			return b.op("Div", x, b.plus(b.op("Abs", x), 1))
		}),
		"Swish": one(func(b *builder, n *onnx.Node, x string) string {
			return b.op("Mul", x, b.op("Sigmoid", b.scaled(floatAttr(n, "alpha", 1), x)))
		}),
		"HardSigmoid": one(func(b *builder, n *onnx.Node, x string) string {
			return b.clamped(x, floatAttr(n, "alpha", 0.2), floatAttr(n, "beta", 0.5))
		}),
		"HardSwish": one(func(b *builder, n *onnx.Node, x string) string {
			return b.op("Mul", x, b.clamped(x, 1.0/6, 0.5))
		}),
		"ThresholdedRelu": one(func(b *builder, n *onnx.Node, x string) string {
			return b.op("Mul", x, b.step(0, b.plus(x, -floatAttr(n, "alpha", 1))))
		}),
		"Shrink": one(func(b *builder, n *onnx.Node, x string) string {
			bias, lambd := floatAttr(n, "bias", 0), floatAttr(n, "lambd", 0.5)
			above, below := b.step(0, b.plus(x, -lambd)), b.step(0, b.op("Neg", b.plus(x, lambd)))
			return b.op("Add", b.op("Mul", b.plus(x, -bias), above), b.op("Mul", b.plus(x, bias), below))
		}),
		"PRelu": func(b *builder, n *onnx.Node) (string, error) {
			if err := b.need(7); err != nil {
				return "", err
			}
			return b.op("Add", b.op("Relu", n.Inputs[0]), b.op("Mul", input(n, 1), b.negative(n.Inputs[0]))), nil
		},
		"Mean": func(b *builder, n *onnx.Node) (string, error) {
			return b.scaled(1/float32(len(n.Inputs)), b.op("Sum", n.Inputs...)), nil
		},
		"ReduceL1":        reduced(named("Abs"), same),
		"ReduceL2":        reduced(square, named("Sqrt")),
		"ReduceSumSquare": reduced(square, same),
		"ReduceLogSum":    reduced(same, named("Log")),

		"LpNormalization": func(b *builder, n *onnx.Node) (string, error) {
			if err := b.need(13); err != nil {
				return "", err
			}
			x := n.Inputs[0]
			if intAttr(n, "p", 2) == 1 {
				return b.op("Div", x, b.sumAlong(n, b.op("Abs", x))), nil
			}
			return b.op("Div", x, b.op("Sqrt", b.sumAlong(n, b.op("Mul", x, x)))), nil
		},
		"LayerNormalization": func(b *builder, n *onnx.Node) (string, error) {
			axis := intAttr(n, "axis", -1)
			x := b.normal(n.Inputs[0], floatAttr(n, "epsilon", 1e-5), func(v string) string { return b.sumFrom(v, axis) })
			return b.affine(x, input(n, 1), input(n, 2), func(v string) string { return v }), nil
		},
		"RMSNormalization": func(b *builder, n *onnx.Node) (string, error) {
			x, axis := n.Inputs[0], intAttr(n, "axis", -1)
			mean := b.op("Div", b.sumFrom(b.op("Mul", x, x), axis), b.sumFrom(b.filled(1, x), axis))
			x = b.op("Div", x, b.op("Sqrt", b.plus(mean, floatAttr(n, "epsilon", 1e-5))))
			return b.affine(x, input(n, 1), "", func(v string) string { return v }), nil
		},
		"GroupNormalization": func(b *builder, n *onnx.Node) (string, error) {
			x, groups := n.Inputs[0], intAttr(n, "num_groups", 1)
			grouped := b.op("Reshape", x, b.ints(0, groups, -1))
			normal := b.normal(grouped, floatAttr(n, "epsilon", 1e-5), func(v string) string { return b.sumFrom(v, 2) })
			if b.opset < 21 { // scale and bias of groups
				return b.op("onward.ReshapeTo", b.affine(normal, input(n, 1), input(n, 2), channelsLike(b, grouped)), x), nil
			}
			return b.affine(b.op("onward.ReshapeTo", normal, x), input(n, 1), input(n, 2), channelsLike(b, x)), nil
		},
		"MeanVarianceNormalization": func(b *builder, n *onnx.Node) (string, error) {
			x, axes := n.Inputs[0], intsAttr(n, "axes", []int64{0, 2, 3})
			count := b.sumAxes(b.filled(1, x), axes)
			d := b.op("Sub", x, b.op("Div", b.sumAxes(x, axes), count))
			return b.op("Div", d, b.plus(b.op("Sqrt", b.op("Div", b.sumAxes(b.op("Mul", d, d), axes), count)), 1e-9)), nil
		},
		"LRN": func(b *builder, n *onnx.Node) (string, error) {
			x, size := n.Inputs[0], float32(intAttr(n, "size", 1))
			if size < 1 {
				return "", fmt.Errorf("attribute size is %v, want at least 1", size)
			}
			sum := b.node("onward.ChannelWindowSum", []*onnx.Attribute{{Name: "factor", Type: onnx.AttrFloat, F: size}}, b.op("Mul", x, x))
			base := b.plus(b.scaled(floatAttr(n, "alpha", 0.0001)/size, sum), floatAttr(n, "bias", 1))
			return b.op("Div", x, b.op("Pow", base, b.filled(floatAttr(n, "beta", 0.75), base))), nil
		},
		"NegativeLogLikelihoodLoss": func(b *builder, n *onnx.Node) (string, error) { return b.classLoss(n) },
		"Cofactors": func(b *builder, n *onnx.Node) (string, error) {
			x := n.Inputs[0]
			return b.op("Mul", b.matrices(b.op("Det", x)), b.op("onward.InverseTransposed", x)), nil
		},
		"InstanceNormalization": func(b *builder, n *onnx.Node) (string, error) {
			x := b.normal(n.Inputs[0], floatAttr(n, "epsilon", 1e-5), func(v string) string { return b.sumFrom(v, 2) })
			return b.affine(x, input(n, 1), input(n, 2), channelsLike(b, n.Inputs[0])), nil
		},
		"BatchNormalization": func(b *builder, n *onnx.Node) (string, error) {
			if b.opset < 9 {
				return "", fmt.Errorf("is differentiated from opset 9 on, the model imports %d", b.opset)
			}
			x, epsilon := n.Inputs[0], floatAttr(n, "epsilon", 1e-5)
			wide := channelsLike(b, x)
			if intAttr(n, "training_mode", 0) != 0 || b.opset < 14 && len(n.Outputs) > 1 {
				x = b.normal(x, epsilon, func(v string) string { return wide(b.op("onward.ChannelSum", v, input(n, 1))) })
			} else {
				d := b.op("Sub", x, wide(input(n, 3)))
				x = b.op("Div", d, wide(b.op("Sqrt", b.plus(input(n, 4), epsilon))))
			}
			return b.affine(x, input(n, 1), input(n, 2), wide), nil
		},
		"Dropout": func(b *builder, n *onnx.Node) (string, error) {
			if b.opset < 7 || input(n, 2) != "" {
				return "", fmt.Errorf("is differentiated where it passes its input on, from opset 7 on and without training_mode")
			}
			return b.op("Identity", n.Inputs[0]), nil
		},
	}
}
