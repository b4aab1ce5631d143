package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
)

// Identity returns its input, which may be of any type
// (https://onnx.ai/onnx/operators/onnx__Identity.html).
type Identity struct{}

var _ = kit.Register(&kit.Def{Name: "Identity", Since: kit.Versions{1, 13, 14, 16, 19, 21, 23, 24, 25},
	In: "input:any", Out: "output:any",
	Elementwise: true,
	Build:       func(a *kit.Attrs, opset int) kit.Operator { return &Identity{} },
	Gradient:    gradient.Derivative(func(b *gradient.Builder, x, y, g string) string { return g })})

// ViewOf implements ir.View.
func (op *Identity) ViewOf() int { return 0 }

// Infer implements ir.Operator.
func (op *Identity) Infer(c *ir.InferContext) error {
	c.SetOut(0, c.Type(0))
	if d := c.Contents(0); d != nil {
		c.SetContents(0, d)
	}
	return nil
}

// Run implements ir.Operator.
func (op *Identity) Run(c *ir.Call) error {
	c.Set(0, c.In[0])
	return nil
}
