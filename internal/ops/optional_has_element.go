package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// OptionalHasElement reports whether an optional holds a value; a tensor or a
// sequence does, an omitted input does not
// (https://onnx.ai/onnx/operators/onnx__OptionalHasElement.html).
type OptionalHasElement struct{}

var _ = kit.Register(&kit.Def{Name: "OptionalHasElement", Since: kit.Versions{15, 18, 28},
	In: "input:any?", Out: "output:bool",
	Build: func(a *kit.Attrs, opset int) kit.Operator { return &OptionalHasElement{} }})

// Infer implements ir.Operator.
func (op *OptionalHasElement) Infer(c *ir.InferContext) error {
	kit.SetShape(c, 0, tensor.TypeBool, []ir.Dim{})
	return nil
}

// Run implements ir.Operator.
func (op *OptionalHasElement) Run(c *ir.Call) error {
	has := c.Has(0)
	if has {
		if o, ok := c.In[0].(*tensor.Optional); ok {
			has = o.Value != nil
		}
	}
	t, err := c.Output(0, tensor.TypeBool)
	if err != nil {
		return err
	}
	tensor.MustData[bool](t)[0] = has
	return nil
}
