package ops

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/move"
	"github.com/onward-ml/onward/tensor"
)

// OptionalGetElement returns the value of an optional, or its input if that is a tensor or a
// sequence (https://onnx.ai/onnx/operators/onnx__OptionalGetElement.html).
type OptionalGetElement struct{}

var _ = kit.Register(&kit.Def{Name: "OptionalGetElement", Since: kit.Versions{15, 18, 28},
	In: "input:any", Out: "output:any",
	Build: func(a *kit.Attrs, opset int) kit.Operator { return &OptionalGetElement{} }})

// Infer implements ir.Operator.
func (op *OptionalGetElement) Infer(c *ir.InferContext) error {
	t := c.Type(0)
	if t.Kind == tensor.KindOptional {
		t = sequenceElem(c, 0)
	}
	c.SetOut(0, t)
	return nil
}

// Run implements ir.Operator.
func (op *OptionalGetElement) Run(c *ir.Call) error {
	v := c.In[0]
	if o, ok := v.(*tensor.Optional); ok {
		if v = o.Value; v == nil {
			return fail.Errorf("optional is empty")
		}
	}
	return move.Value(c, 0, v)
}
