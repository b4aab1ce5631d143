package msft

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/window"
	"github.com/onward-ml/onward/tensor"
)

// ConvTransposeWithDynamicPads is ConvTranspose with the pads as an input
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.ConvTransposeWithDynamicPads).
type ConvTransposeWithDynamicPads struct{ of ops.ConvTranspose }

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "ConvTransposeWithDynamicPads", Since: kit.Versions{1},
	In: "X:T, W:T, Pads:int64?, B:T?", Out: "Y:T",
	MACs:  kit.ConvTransposeMACs,
	Types: "T: @float", Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &ConvTransposeWithDynamicPads{ops.ConvTranspose{Window: window.Read(a, true), Group: window.ReadGroup(a),
			OutputPadding: window.Attr(a, "output_padding", 0)}}
	}})

// Infer sets batch and channels; the spatial sizes depend on the pads.
func (op *ConvTransposeWithDynamicPads) Infer(c *ir.InferContext) error {
	t := ir.UnrankedTensor(c.Elem(0))
	if x, w := c.Shape(0), c.Shape(1); len(x) >= 3 && len(w) == len(x) {
		t.Shape = ir.UnknownDims(len(x))
		t.Shape[0], t.Shape[1] = x[0], w[1].Mul(ir.Known(op.of.Group))
	}
	c.SetOut(0, t)
	return nil
}

// Run reads the pads and convolves.
func (op *ConvTransposeWithDynamicPads) Run(c *ir.Call) error {
	v := op.of
	if t := c.Tensor(2); t != nil {
		v.Pads = kit.Ints(t)
		for _, p := range v.Pads {
			if p < 0 || p > window.Limit {
				return fail.Errorf("Pads are %v, want 0 to %d", v.Pads, window.Limit)
			}
		}
		if n := c.Tensor(0).Rank() - 2; len(v.Pads) != 2*n {
			return fail.Errorf("Pads are %v, want two values for each of %d axes", v.Pads, n)
		}
	}
	in := []tensor.Value{c.In[0], c.In[1], nil}
	if c.Has(3) {
		in[2] = c.In[3]
	}
	return c.Inner(&v, in...)
}
