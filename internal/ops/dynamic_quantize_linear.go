package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/quant"
	"github.com/onward-ml/onward/internal/ops/kit"
	kitquant "github.com/onward-ml/onward/internal/ops/kit/quant"
	"github.com/onward-ml/onward/tensor"
)

// DynamicQuantizeLinear quantizes to uint8. Scale and zero point are derived from the range of the
// data, which includes 0 (https://onnx.ai/onnx/operators/onnx__DynamicQuantizeLinear.html).
type DynamicQuantizeLinear struct{}

var _ = kit.Register(&kit.Def{Name: "DynamicQuantizeLinear", Since: kit.Versions{11}, In: "x:T1",
	Out:   "y:T2, y_scale:float, y_zero_point:T2",
	Class: kit.ClassArithmetic,
	Types: "T1: float; T2: uint8",
	Build: kit.WithoutAttrs[DynamicQuantizeLinear]})

// Infer implements [ir.Operator].
func (*DynamicQuantizeLinear) Infer(c *ir.InferContext) error {
	c.SetOut(0, ir.Type{Kind: tensor.KindTensor, Elem: tensor.TypeUint8, Shape: c.Shape(0)})
	c.SetOut(1, ir.TensorType(tensor.TypeFloat32))
	c.SetOut(2, ir.TensorType(tensor.TypeUint8))
	return nil
}

// Run implements [ir.Operator].
func (*DynamicQuantizeLinear) Run(c *ir.Call) error {
	x := c.Tensor(0)
	src := tensor.MustData[float32](x)
	scale, zero := kitquant.DynamicRange(c, src)
	out, err := c.Output(0, tensor.TypeUint8, x.Shape()...)
	if err != nil {
		return err
	}
	scaleOut, err := c.Output(1, tensor.TypeFloat32)
	if err != nil {
		return err
	}
	zeroOut, err := c.Output(2, tensor.TypeUint8)
	if err != nil {
		return err
	}
	tensor.MustData[float32](scaleOut)[0] = scale
	tensor.MustData[uint8](zeroOut)[0] = kitquant.Byte(zero)
	dst := tensor.MustData[uint8](out)
	if !c.Generic {
		c.Parallel(len(src), kit.GrainVector, func(lo, hi int) {
			quant.Quantize(cpu.Active(), dst[lo:hi], src[lo:hi], scale, kitquant.Byte(zero))
		})
		return nil
	}
	c.Parallel(len(src), kit.GrainCheap, func(lo, hi int) {
		y := dst[lo:hi]
		for i, v := range src[lo:hi] {
			y[i] = kitquant.Byte(float32(math.RoundToEven(float64(v/scale))) + zero)
		}
	})
	return nil
}
