package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/window"
	"github.com/onward-ml/onward/tensor"
)

// ConvInteger convolves 8-bit integers, minus their zero points, to int32. Padding has the value of
// the zero point (https://onnx.ai/onnx/operators/onnx__ConvInteger.html).
type ConvInteger struct {
	window.Window
	Group int
}

var _ = kit.Register(&kit.Def{Name: "ConvInteger", Since: kit.Versions{10},
	In: "x:T1, w:T2, x_zero_point:T1?, w_zero_point:T2?", Out: "y:T3",
	MACs:  kit.ConvMACs,
	Types: "T1: int8 uint8; T2: int8 uint8; T3: int32",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &ConvInteger{Window: window.Read(a, true), Group: window.ReadGroup(a)}
	}})

// Infer checks the channels and computes the spatial sizes.
func (v *ConvInteger) Infer(c *ir.InferContext) error {
	return window.InferConv(c, &v.Window, v.Group, 0, 1, ir.UnrankedTensor(tensor.TypeInt32))
}

// Run adds in int32.
func (v *ConvInteger) Run(c *ir.Call) error { return v.run(c, nil) }

// run computes the convolution. packed holds the weights if they are constant.
func (v *ConvInteger) run(c *ir.Call, packed *window.ConvWeights) error {
	x, w, xz, wz := c.Tensor(0), c.Tensor(1), c.Tensor(2), c.Tensor(3)
	s, packed, err := window.ConvBytesShape(c, &v.Window, v.Group, x.Shape(), w, xz, wz, packed)
	if err != nil {
		return err
	}
	t, err := c.Output(0, tensor.TypeInt32, s.Shape...)
	if err != nil || t.Len() == 0 {
		return err
	}
	if packed == nil {
		return window.ConvolveBytes(c, &s, x, w, xz, wz, nil, tensor.MustData[int32](t))
	}
	return packed.Integers(c, &s, x, xz, nil, tensor.MustData[int32](t))
}

// convIntegerPacked is a ConvInteger with constant weights.
type convIntegerPacked struct {
	ConvInteger
	w *window.ConvWeights
}

// Prepare packs constant weights.
func (v *ConvInteger) Prepare(in []tensor.Value, types []ir.Type) (ir.Operator, []int, error) {
	w, err := window.PrepareConvBytes(in, types, 1, 3, v.Group)
	if w == nil || err != nil {
		return nil, nil, err
	}
	return &convIntegerPacked{ConvInteger: *v, w: w}, []int{1}, nil
}

// Run convolves with the packed weights.
func (v *convIntegerPacked) Run(c *ir.Call) error { return v.run(c, v.w) }
