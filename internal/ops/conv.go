package ops

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/internal/ops/kit/window"
	"github.com/onward-ml/onward/tensor"
)

// Conv convolves an N×C×D1…Dk input with M×C/Group×K1…Kk weights and adds a bias per output channel
// (https://onnx.ai/onnx/operators/onnx__Conv.html).
type Conv struct {
	window.Window
	Group int
}

var _ = kit.Register(&kit.Def{Name: "Conv", Since: kit.Versions{1, 11, 22}, In: "X:T, W:T, B:T?",
	Out: "Y:T", Types: "T: @float",
	MACs: kit.ConvMACs,
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &Conv{Window: window.Read(a, true), Group: window.ReadGroup(a)}
	},
	Gradient: gradient.Rule(convGradient)})

// convGradient uses that Y = X∗W is linear in X and in W. The gradients for them are again
// linear in their two inputs, so the three operators are each other's gradients.
func convGradient(b *gradient.Builder, n *gradient.Node, g string) ([]string, error) {
	if len(n.Inputs) < 2 {
		return nil, fail.Errorf("node has %d inputs, want 2 or 3", len(n.Inputs))
	}
	r := make([]string, len(n.Inputs))
	r[0] = b.Node("onward.ConvInputGradient", n.Attrs, g, n.Inputs[1], n.Inputs[0])
	r[1] = b.Node("onward.ConvWeightGradient", n.Attrs, g, n.Inputs[0], n.Inputs[1])
	if bias := n.Input(2); bias != "" {
		r[2] = b.Op("onward.ChannelSum", g, bias)
	}
	return r, nil
}

// Infer checks the channels and computes the spatial sizes.
func (v *Conv) Infer(c *ir.InferContext) error {
	return window.InferConv(c, &v.Window, v.Group, 0, 1, ir.UnrankedTensor(c.Elem(0)))
}

// Run computes float16 and bfloat16 in float32.
func (v *Conv) Run(c *ir.Call) error {
	if c.Tensor(0).DType() == tensor.TypeFloat64 {
		w := c.Tensor(1)
		return convReal(c, v, tensor.MustData[float64](w), w.Shape())
	}
	w, err := kit.RealIn[float32](c, c.Tensor(1))
	if err != nil {
		return err
	}
	return convReal(c, v, w, c.Tensor(1).Shape())
}

func convReal[T kit.RealFloat](c *ir.Call, v *Conv, w []T, wshape []int) error {
	x := c.Tensor(0)
	s, err := window.NewConvShape(&v.Window, v.Group, x.Shape(), wshape)
	if err != nil {
		return err
	}
	if b := c.Tensor(2); b != nil {
		if err := window.ConvBias(b.Shape(), s.M); err != nil {
			return err
		}
	}
	xs, err := kit.RealIn[T](c, x)
	if err != nil {
		return err
	}
	bias, err := kit.RealIn[T](c, c.Tensor(2))
	if err != nil {
		return err
	}
	y, err := kit.RealOut[T](c, 0, x.DType(), s.Shape...)
	if err != nil {
		return err
	}
	err = window.Convolve(c, &s, xs, w, bias, y.Data)
	if err == nil {
		y.Store()
	}
	return err
}

// Prepare packs float32 weights where [FusedConv] does.
func (v *Conv) Prepare(in []tensor.Value, types []ir.Type) (ir.Operator, []int, error) {
	return (&FusedConv{Conv: *v}).Prepare(in, types)
}
