package ops

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/move"
	"github.com/onward-ml/onward/tensor"
)

// Optional returns an optional with its input as value, or without an input an empty one of type
// Type (https://onnx.ai/onnx/operators/onnx__Optional.html).
type Optional struct{ Type ir.Type }

var _ = kit.Register(&kit.Def{Name: "Optional", Since: kit.Versions{15, 28},
	In: "input:V?", Out: "output:optional(V)", Types: "V: " + move.AnyTensorOrSeq,
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		if a.NumIn == 0 {
			a.Require("type")
		}
		return &Optional{Type: a.Type("type")}
	}})

// Infer implements ir.Operator.
func (op *Optional) Infer(c *ir.InferContext) error {
	t := op.Type
	if c.Has(0) {
		t = c.Type(0)
		if op.Type.Known() && !op.Type.Base().Equal(t.Base()) {
			return fail.Errorf("input has type %s, but attribute type is %s", t.Base(), op.Type.Base())
		}
	}
	if !t.Known() {
		return fail.Errorf("both the input and the attribute type are absent, want one of them")
	}
	c.SetOut(0, ir.OptionalOf(t))
	return nil
}

// Run implements ir.Operator.
func (op *Optional) Run(c *ir.Call) error {
	if c.Has(0) {
		c.Set(0, &tensor.Optional{Elem: c.In[0].Type(), Value: c.In[0]})
	} else {
		c.Set(0, &tensor.Optional{Elem: op.Type.Base()})
	}
	return nil
}
