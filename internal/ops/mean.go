package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
)

// Mean returns the elementwise mean of its inputs, broadcast to one shape
// (https://onnx.ai/onnx/operators/onnx__Mean.html).
type Mean struct{}

var _ = kit.Register(&kit.Def{Name: "Mean", Since: kit.Versions{1, 6, 8, 13}, In: "data_0:T+", Out: "mean:T",
	Types:       "T: @float",
	Elementwise: true,
	Build:       kit.WithoutAttrs[Mean],
	Gradient: gradient.Decomposition(func(b *gradient.Builder, n *gradient.Node) (string, error) {
		return b.Scaled(1/float32(len(n.Inputs)), b.Op("Sum", n.Inputs...)), nil
	})})

// Infer implements [ir.Operator].
func (*Mean) Infer(c *ir.InferContext) error { return elementwise.InferVariadic(c) }

// Run implements [ir.Operator].
func (*Mean) Run(c *ir.Call) error { return elementwise.RunSum(c, float64(c.NumIn())) }
