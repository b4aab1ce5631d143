package ops

import (
	"slices"
	"sync"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/quant"
	"github.com/onward-ml/onward/tensor"
)

// DequantizeLinear returns (x − zero point)·scale. The output has the type of the scale unless
// OutputDType is set (https://onnx.ai/onnx/operators/onnx__DequantizeLinear.html).
type DequantizeLinear struct {
	quant.Quantization
	OutputDType tensor.DType
}

var _ = kit.Register(&kit.Def{Name: "DequantizeLinear", Since: kit.Versions{10, 13, 19, 21, 23, 24, 25, 28},
	Class: kit.ClassArithmetic,
	In:    "x:T1, x_scale:T2, x_zero_point:T1?", Out: "y:T3",
	Types: "T1: " + quant.Types + " int32; T2: float float16 bfloat16 float8e8m0; T3: float float16 bfloat16",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		o := &DequantizeLinear{Quantization: quant.Read(a, opset)}
		if opset >= 23 {
			o.OutputDType = a.DType("output_dtype", tensor.Undefined)
		}
		switch o.OutputDType {
		case tensor.Undefined, tensor.TypeFloat32, tensor.TypeFloat16, tensor.TypeBFloat16:
		default:
			a.Errorf("attribute output_dtype is %s, want float, float16 or bfloat16", o.OutputDType)
		}
		return o
	}})

func (o *DequantizeLinear) elem(scale tensor.DType) (tensor.DType, error) {
	if o.OutputDType != tensor.Undefined {
		return o.OutputDType, nil
	}
	if scale == tensor.TypeFloat8E8M0 {
		return 0, fail.Errorf("scale has type %s, so the attribute output_dtype is required", scale)
	}
	return scale, nil
}

// Infer implements [ir.Operator].
func (o *DequantizeLinear) Infer(c *ir.InferContext) error {
	d, err := o.elem(c.Elem(1))
	if err != nil {
		return err
	}
	c.SetOut(0, ir.Type{Kind: tensor.KindTensor, Elem: d, Shape: c.Shape(0)})
	return nil
}

// Run implements [ir.Operator].
func (o *DequantizeLinear) Run(c *ir.Call) error {
	x := c.Tensor(0)
	d, err := o.elem(c.Tensor(1).DType())
	if err != nil {
		return err
	}
	p, err := o.Params(c, x.Shape())
	if err != nil {
		return err
	}
	out, err := c.Output(0, d, x.Shape()...)
	if err != nil {
		return err
	}
	res := out
	if d != tensor.TypeFloat32 {
		if res, err = kit.ScratchTensor(c, tensor.TypeFloat32, x.Shape()); err != nil {
			return err
		}
	}
	dst := tensor.MustData[float32](res)
	switch x.DType() {
	case tensor.TypeInt8:
		err = dequantizeInts(c, p, dst, tensor.MustData[int8](x), vec.I8ToF32)
	case tensor.TypeUint8:
		err = dequantizeInts(c, p, dst, tensor.MustData[uint8](x), vec.U8ToF32)
	case tensor.TypeInt16:
		err = dequantizeInts(c, p, dst, tensor.MustData[int16](x), vec.I16ToF32)
	case tensor.TypeUint16:
		err = dequantizeInts(c, p, dst, tensor.MustData[uint16](x), vec.U16ToF32)
	case tensor.TypeInt32:
		if !c.Generic && slices.ContainsFunc(p.Zero, func(z float32) bool { return z != 0 }) {
			err = dequantizeShifted(c, p, dst, tensor.MustData[int32](x))
			break
		}
		err = dequantizeInts(c, p, dst, tensor.MustData[int32](x), vec.I32ToF32)
	default:
		var wide *tensor.Tensor
		if wide, err = kit.ToScratch(c, x, tensor.TypeFloat32); err != nil {
			return err
		}
		err = dequantizeInts(c, p, dst, tensor.MustData[float32](wide), nil)
	}
	if err != nil || res == out {
		return err
	}
	return kit.ConvertInto(c, out, res, tensor.ConvertOptions{})
}

// dequantizeInts uses vector kernels with widen, unless it is nil or the call asks for generic
// kernels.
func dequantizeInts[T int8 | uint8 | int16 | uint16 | int32 | float32](c *ir.Call, p *quant.Params, dst []float32,
	src []T, widen func(l cpu.Level, dst []float32, x []T)) error {
	if widen != nil && !c.Generic {
		return dequantizeFast(c, p, dst, func(y []float32, lo int) { widen(cpu.Active(), y, src[lo:lo+len(y)]) })
	}
	return p.EachBlock(c, func(b *quant.Block, lo, hi int) {
		x, y := src[lo:hi], dst[lo:hi]
		scale, zero := b.Scale[:len(x)], b.Zero[:len(x)]
		if p.Zero == nil {
			for i, v := range x {
				y[i] = float32(v) * scale[i]
			}
			return
		}
		for i, v := range x {
			// Subtract in float64, since float32 would round an int32 first.
			y[i] = float32(float64(v)-float64(zero[i])) * scale[i]
		}
	})
}

// dequantizeFast dequantizes with vector kernels. widen stores the elements from lo on as float32.
//
//go:noinline
func dequantizeFast(c *ir.Call, p *quant.Params, dst []float32, widen func(y []float32, lo int)) error {
	return p.EachRun(c, 4*kit.LoopBlock, func(lo, hi int, scale, zero []float32) {
		level, y := cpu.Active(), dst[lo:hi]
		widen(y, lo)
		switch {
		case zero == nil:
		case len(zero) > 1:
			vec.SubF32(level, y, y, zero)
		case zero[0] != 0:
			vec.SubScalarF32(level, y, y, zero[0])
		}
		multiply(y, scale)
	})
}

// dequantizeShifted subtracts zero points in float64, since float32 would round the elements first.
func dequantizeShifted(c *ir.Call, p *quant.Params, dst []float32, src []int32) error {
	type buffers [2][kit.LoopBlock]float64
	pool := sync.Pool{New: func() any { return new(buffers) }}
	return p.EachRun(c, kit.LoopBlock, func(lo, hi int, scale, zero []float32) {
		b := pool.Get().(*buffers)
		defer pool.Put(b)
		level, x, z := cpu.Active(), b[0][:hi-lo], b[1][:hi-lo]
		vec.I32ToF64(level, x, src[lo:hi])
		if len(zero) > 1 {
			vec.F32ToF64(level, z, zero)
		} else {
			kit.RepeatOf(z, float64(zero[0]))
		}
		vec.SubF64(level, x, x, z)
		vec.F64ToF32(level, dst[lo:hi], x)
		multiply(dst[lo:hi], scale)
	})
}

// multiply multiplies x by one scale or one each.
func multiply(x, scale []float32) {
	if len(scale) > 1 {
		vec.MulF32(cpu.Active(), x, x, scale)
	} else {
		vec.MulScalarF32(cpu.Active(), x, x, scale[0])
	}
}
