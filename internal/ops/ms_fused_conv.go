package ops

import (
	"fmt"
	"slices"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// ActivatedConv is com.microsoft's FusedConv: a convolution, plus Z of the same
// shape, and an activation of the sum
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.FusedConv).
type ActivatedConv struct {
	conv Conv
	act  fusedActivation
}

var _ = register(Def{Domain: DomainMicrosoft, Name: "FusedConv", Since: []int{1}, In: "X:T, W:T, B:T?, Z:T?", Out: "Y:T",
	Types: Types{"T": "float16 float double"}, Build: simple(func(a *Attrs, opset int) Operator {
		if a.Has("activation") && a.String("activation", "") == "" {
			a.Errorf("activation is empty; leave the attribute out for none") // as ONNX Runtime asks for
		}
		return &ActivatedConv{Conv{Window: readWindow(a, true), Group: readGroup(a)}, readFusedActivation(a, a.Floats("activation_params"))}
	})})

// Fused returns the operator in the form that the optimizer works with, nil where
// that does not know the activation.
func (op *ActivatedConv) Fused() *FusedConv {
	f := &FusedConv{Conv: op.conv}
	switch op.act.fn.name {
	case "":
	case "relu":
		f.Act.Kind = ActRelu
	case "clip":
		f.Act = Activation{Kind: ActClip, Lo: float32(op.act.lo), Hi: float32(op.act.hi)}
	default:
		return nil
	}
	return f
}

// Infer infers the convolution.
func (op *ActivatedConv) Infer(c *ir.InferContext) error { return op.conv.Infer(c) }

// Run convolves and changes the result in place.
func (op *ActivatedConv) Run(c *ir.Call) error {
	if err := c.Inner(&op.conv); err != nil {
		return err
	}
	if z := c.Tensor(3); z != nil {
		y := c.Out[0].(*tensor.Tensor)
		if !slices.Equal(z.Shape(), y.Shape()) {
			return fmt.Errorf("Z has shape %v, want %v", z.Shape(), y.Shape())
		}
		if y.DType() == tensor.TypeFloat64 {
			addTo(tensor.Of[float64](y), tensor.Of[float64](z))
		} else {
			sum, err := realIn[float32](c, y)
			if err != nil {
				return err
			}
			add, err := realIn[float32](c, z)
			if err != nil {
				return err
			}
			addTo(sum, add)
			realOutput[float32]{sum, y}.store()
		}
	}
	return op.act.apply(c)
}

func addTo[T realFloat](dst, src []T) {
	src = src[:len(dst)]
	for i, v := range src {
		dst[i] += v
	}
}
