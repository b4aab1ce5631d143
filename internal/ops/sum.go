package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
)

// Sum returns the elementwise sum of its inputs, broadcast to one shape
// (https://onnx.ai/onnx/operators/onnx__Sum.html).
type Sum struct{}

var _ = kit.Register(&kit.Def{Name: "Sum", Since: kit.Versions{1, 6, 8, 13}, In: "data_0:T+",
	Out: "sum:T", Types: "T: @float",
	Elementwise: true,
	Build:       kit.WithoutAttrs[Sum],
	Gradient: gradient.Rule(func(b *gradient.Builder, n *gradient.Node, g string) ([]string, error) {
		r := make([]string, len(n.Inputs))
		for i, x := range n.Inputs {
			r[i] = b.SumTo(g, x)
		}
		return r, nil
	})})

// Infer implements [ir.Operator].
func (*Sum) Infer(c *ir.InferContext) error { return elementwise.InferVariadic(c) }

// Run implements [ir.Operator].
func (*Sum) Run(c *ir.Call) error { return elementwise.RunSum(c, 1) }
