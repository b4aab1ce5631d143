package ops

import (
	"strings"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/tensor"
)

// Cast converts elements to another type
// (https://onnx.ai/onnx/operators/onnx__Cast.html).
type Cast struct {
	To      tensor.DType
	Options tensor.ConvertOptions
}

var _ = kit.Register(&kit.Def{Name: "Cast", Since: kit.Versions{1, 6, 9, 13, 19, 21, 23, 24, 25, 28},
	In: "input:T1", Out: "output:T2",
	Types: "T1: " + kit.CastTypes + " @float6; T2: " + kit.CastTypes + " @float6",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		o := &Cast{}
		a.Require("to")
		if opset < 6 { // the attribute is the name of the type
			d, err := tensor.ParseDType(strings.ToLower(a.String("to", "")))
			if err != nil {
				return a.Fail(fail.Errorf("attribute to: %w", err))
			}
			o.To = d
		} else if o.To = a.DType("to", tensor.Undefined); o.To == tensor.Undefined && a.Has("to") {
			a.Errorf("attribute to is 0, want an element type")
		}
		o.Options = kit.ReadConvertOptions(a, opset)
		return o
	},
	Gradient: &gradient.Gradient{Outputs: 1, Rule: castGradient, Flat: castIsFlat}})

// castGradient casts the gradient back.
func castGradient(b *gradient.Builder, n *gradient.Node, gs []string) ([]string, error) {
	if err := b.Need(15); err != nil { // CastLike
		return nil, err
	}
	return n.First(b.Op("CastLike", gs[0], n.Inputs[0])), nil
}

// castIsFlat reports whether the target type has no fractions.
func castIsFlat(n *gradient.Node) bool {
	switch tensor.DType(n.Attrs.Int("to", 0)) {
	case tensor.TypeFloat32, tensor.TypeFloat64, tensor.TypeFloat16, tensor.TypeBFloat16:
		return false
	}
	return true
}

// Infer implements [ir.Operator].
func (o *Cast) Infer(c *ir.InferContext) error { kit.InferCast(c, o.To); return nil }

// Run implements [ir.Operator].
func (o *Cast) Run(c *ir.Call) error { return kit.RunCast(c, o.To, o.Options) }
