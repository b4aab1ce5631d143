package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// NhwcConv is Conv of an N×D1×…×Dk×C input; the weights are those of Conv
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.NhwcConv).
type NhwcConv struct {
	Window
	Group int
}

var _ = register(Def{Domain: DomainMicrosoft, Name: "NhwcConv", Since: []int{1}, In: "X:T, W:T, B:T?", Out: "Y:T",
	Types: Types{"T": "float16 float double"},
	Build: simple(func(a *Attrs, opset int) Operator {
		return &NhwcConv{Window: readWindow(a, true), Group: readGroup(a)}
	})})

// Infer checks channels and computes the windows' number.
func (v *NhwcConv) Infer(c *ir.InferContext) error {
	return inferConvLast(c, &v.Window, v.Group, 0, 1, ir.UnrankedTensor(c.Elem(0)))
}

// Run computes float16 as float.
func (v *NhwcConv) Run(c *ir.Call) error {
	if c.Tensor(0).DType() == tensor.TypeFloat64 {
		return convLast[float64](c, v)
	}
	return convLast[float32](c, v)
}

func convLast[T realFloat](c *ir.Call, v *NhwcConv) error {
	x, err := channelsFirst(c, c.Tensor(0))
	if err != nil {
		return err
	}
	s, err := newConvShape(&v.Window, v.Group, x.Shape(), c.Tensor(1).Shape())
	if err != nil {
		return err
	}
	if b := c.Tensor(2); b != nil {
		if err := convBias(b.Shape(), s.m); err != nil {
			return err
		}
	}
	var in [3][]T
	for i, t := range []*tensor.Tensor{x, c.Tensor(1), c.Tensor(2)} {
		if in[i], err = realIn[T](c, t); err != nil {
			return err
		}
	}
	y, err := realOut[T](c, 0, x.DType(), channelsLastShape(s.shape)...)
	if err != nil {
		return err
	}
	planes, err := ir.ScratchOf[T](c, len(y.data))
	if err != nil {
		return err
	}
	if err := convolve(c, &s, in[0], in[1], in[2], planes); err != nil {
		return err
	}
	width := tensor.DTypeOf[T]().Size()
	moveChannels(c, moveBuf{width: width, raw: tensor.AsBytes(y.data)}, moveBuf{width: width, raw: tensor.AsBytes(planes)}, s.shape, true)
	y.store()
	return nil
}
