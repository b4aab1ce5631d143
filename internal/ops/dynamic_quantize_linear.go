package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/quant"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/tensor"
)

// DynamicQuantizeLinear quantizes to uint8 with the scale and the zero point
// that fit the range of the data, 0 included
// (https://onnx.ai/onnx/operators/onnx__DynamicQuantizeLinear.html).
type DynamicQuantizeLinear struct{}

var _ = register(Def{Name: "DynamicQuantizeLinear", Since: []int{11}, In: "x:T1", Out: "y:T2, y_scale:float, y_zero_point:T2",
	Types: Types{"T1": "float", "T2": "uint8"},
	Build: withoutAttrs(&DynamicQuantizeLinear{})})

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
	src := tensor.Of[float32](x)
	scale, zero := dynamicRange(c, src)
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
	tensor.Of[float32](scaleOut)[0] = scale
	tensor.Of[uint8](zeroOut)[0] = quantizedByte(zero)
	dst := tensor.Of[uint8](out)
	if !c.Generic {
		return eachRange(c, len(src), grainVector, func(lo, hi int) {
			quant.Quantize(cpu.Active(), dst[lo:hi], src[lo:hi], scale, quantizedByte(zero))
		})
	}
	return eachRange(c, len(src), grainCheap, func(lo, hi int) {
		y := dst[lo:hi]
		for i, v := range src[lo:hi] {
			y[i] = quantizedByte(float32(math.RoundToEven(float64(v/scale))) + zero)
		}
	})
}

// quantizedByte limits a rounded number to [0, 255]; a NaN becomes 0.
func quantizedByte(v float32) uint8 {
	if !(v >= 0) {
		v = 0
	}
	return uint8(min(v, 255))
}

// dynamicRange returns the scale and the zero point that fit the range of the
// numbers and 0 to uint8.
func dynamicRange(c *ir.Call, src []float32) (scale, zero float32) {
	least, most := float32(0), float32(0)
	if c.Generic {
		for _, v := range src {
			least, most = min(least, v), max(most, v)
		}
	} else if len(src) > 0 {
		least, most = min(0, vec.ReduceMinF32(cpu.Active(), src)), max(0, vec.ReduceMaxF32(cpu.Active(), src))
	}
	width := most - least
	if width == 0 {
		width = 1
	}
	scale = width / 255
	zero = float32(math.RoundToEven(float64(max(0, min(255, -least/scale)))))
	return scale, zero
}
