package msft

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/move"
	"github.com/onward-ml/onward/internal/ops/kit/window"
	"github.com/onward-ml/onward/tensor"
)

// NhwcConv is Conv of an N×D1×…×Dk×C input; the weights have the layout of Conv
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.NhwcConv).
type NhwcConv struct {
	window.Window
	Group int
}

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "NhwcConv", Since: kit.Versions{1},
	In: "X:T, W:T, B:T?", Out: "Y:T",
	MACs:  kit.ConvMACs,
	Types: "T: float16 float double",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &NhwcConv{Window: window.Read(a, true), Group: window.ReadGroup(a)}
	}})

// Infer checks the channels and computes the output shape.
func (v *NhwcConv) Infer(c *ir.InferContext) error {
	return window.InferConvLast(c, &v.Window, v.Group, 0, 1, ir.UnrankedTensor(c.Elem(0)))
}

// Run computes float16 in float32.
func (v *NhwcConv) Run(c *ir.Call) error {
	if c.Tensor(0).DType() == tensor.TypeFloat64 {
		return convLast[float64](c, v)
	}
	return convLast[float32](c, v)
}

func convLast[T kit.RealFloat](c *ir.Call, v *NhwcConv) error {
	x, err := window.ChannelsFirst(c, c.Tensor(0))
	if err != nil {
		return err
	}
	s, err := window.NewConvShape(&v.Window, v.Group, x.Shape(), c.Tensor(1).Shape())
	if err != nil {
		return err
	}
	if b := c.Tensor(2); b != nil {
		if err := window.ConvBias(b.Shape(), s.M); err != nil {
			return err
		}
	}
	var in [3][]T
	for i, t := range []*tensor.Tensor{x, c.Tensor(1), c.Tensor(2)} {
		if in[i], err = kit.RealIn[T](c, t); err != nil {
			return err
		}
	}
	y, err := kit.RealOut[T](c, 0, x.DType(), window.ChannelsLastShape(s.Shape)...)
	if err != nil {
		return err
	}
	planes, err := ir.ScratchOf[T](c, len(y.Data))
	if err != nil {
		return err
	}
	if err := window.Convolve(c, &s, in[0], in[1], in[2], planes); err != nil {
		return err
	}
	width := tensor.DTypeOf[T]().Size()
	window.MoveChannels(c, move.Buf{Width: width, Raw: memory.AsBytes(y.Data)},
		move.Buf{Width: width, Raw: memory.AsBytes(planes)}, s.Shape, true)
	y.Store()
	return nil
}
