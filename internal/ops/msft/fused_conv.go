package msft

import (
	"slices"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/window"
	"github.com/onward-ml/onward/tensor"
)

// ActivatedConv implements FusedConv of com.microsoft: a convolution, plus Z of the same
// shape, followed by an activation
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.FusedConv).
type ActivatedConv struct {
	Conv ops.Conv
	Act  fusedActivation
}

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "FusedConv", Since: kit.Versions{1},
	In: "X:T, W:T, B:T?, Z:T?", Out: "Y:T",
	MACs:  kit.ConvMACs,
	Types: "T: float16 float double", Build: func(a *kit.Attrs, opset int) kit.Operator {
		if a.Has("activation") && a.String("activation", "") == "" {
			// ONNX Runtime rejects it too
			a.Errorf("activation must not be empty; omit the attribute for no activation")
		}
		return &ActivatedConv{ops.Conv{Window: window.Read(a, true), Group: window.ReadGroup(a)},
			ReadFusedActivation(a, a.Floats("activation_params"))}
	}})

// Fused returns the operator in the form that the optimizer works with, or nil if the
// optimizer does not support the activation.
func (op *ActivatedConv) Fused() *ops.FusedConv {
	f := &ops.FusedConv{Conv: op.Conv}
	switch op.Act.fn.Name {
	case "":
	case "relu":
		f.Act.Kind = kit.ActRelu
	case "clip":
		f.Act = kit.Activation{Kind: kit.ActClip, Lo: float32(op.Act.lo), Hi: float32(op.Act.hi)}
	default:
		return nil
	}
	return f
}

// Infer infers the shape of the convolution.
func (op *ActivatedConv) Infer(c *ir.InferContext) error { return op.Conv.Infer(c) }

// Run computes the convolution, then adds Z and applies the activation in place.
func (op *ActivatedConv) Run(c *ir.Call) error {
	if err := c.Inner(&op.Conv); err != nil {
		return err
	}
	if z := c.Tensor(3); z != nil {
		y := c.Out[0].(*tensor.Tensor)
		if !slices.Equal(z.Shape(), y.Shape()) {
			return fail.Errorf("Z has shape %v, want %v", z.Shape(), y.Shape())
		}
		if y.DType() == tensor.TypeFloat64 {
			addTo(tensor.MustData[float64](y), tensor.MustData[float64](z))
		} else {
			sum, err := kit.RealIn[float32](c, y)
			if err != nil {
				return err
			}
			add, err := kit.RealIn[float32](c, z)
			if err != nil {
				return err
			}
			addTo(sum, add)
			kit.RealOutput[float32]{Data: sum, T: y}.Store()
		}
	}
	return op.Act.apply(c)
}

func addTo[T kit.RealFloat](dst, src []T) {
	switch d := any(dst).(type) {
	case []float32:
		vec.AddF32(cpu.Active(), d, d, any(src).([]float32))
	case []float64:
		vec.AddF64(cpu.Active(), d, d, any(src).([]float64))
	}
}
