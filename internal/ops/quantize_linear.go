package ops

import (
	"math"
	"sync"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/quant"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	kitquant "github.com/onward-ml/onward/internal/ops/kit/quant"
	"github.com/onward-ml/onward/tensor"
)

// QuantizeLinear returns saturate(round(x/scale) + zero point), rounded to nearest, ties to even.
// The quotient is computed in Precision if that is set, otherwise in the type of the scale
// (https://onnx.ai/onnx/operators/onnx__QuantizeLinear.html).
type QuantizeLinear struct {
	kitquant.Quantization
	Saturate    bool // float8: numbers out of range become the largest finite number
	OutputDType tensor.DType
	Precision   tensor.DType
}

var _ = kit.Register(&kit.Def{Name: "QuantizeLinear", Since: kit.Versions{10, 13, 19, 21, 23, 24, 25, 28},
	Class: kit.ClassArithmetic,
	In:    "x:T1, y_scale:T2, y_zero_point:T3?", Out: "y:T3",
	Types: "T1: float float16 bfloat16 int32; T2: float float16 bfloat16 int32 float8e8m0; T3: " + kitquant.Types,
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		o := &QuantizeLinear{Quantization: kitquant.Read(a, opset), Saturate: true}
		if opset >= 19 {
			o.Saturate = a.Bool("saturate", true)
		}
		if opset >= 21 {
			o.OutputDType = a.DType("output_dtype", tensor.Undefined)
		}
		if opset >= 23 {
			o.Precision = a.DType("precision", tensor.Undefined)
		}
		switch o.Precision {
		case tensor.Undefined, tensor.TypeFloat32, tensor.TypeFloat16, tensor.TypeBFloat16:
		default:
			a.Errorf("attribute precision is %s, want float, float16 or bfloat16", o.Precision)
		}
		if d := o.OutputDType; d != tensor.Undefined && !quantizable(d) {
			a.Errorf("attribute output_dtype is %s, want a quantized type", d)
		}
		return o
	}})

func quantizable(d tensor.DType) bool {
	switch d {
	case tensor.TypeInt8, tensor.TypeUint8, tensor.TypeInt16, tensor.TypeUint16:
		return true
	}
	return d.Packed() || d.IsFloat8() && d != tensor.TypeFloat8E8M0
}

func (o *QuantizeLinear) elem(zero tensor.DType) (tensor.DType, error) {
	switch {
	case zero != tensor.Undefined && o.OutputDType != tensor.Undefined && zero != o.OutputDType:
		return 0, fail.Errorf("attribute output_dtype is %s, but the zero point is %s", o.OutputDType, zero)
	case zero != tensor.Undefined:
		return zero, nil
	case o.OutputDType != tensor.Undefined:
		return o.OutputDType, nil
	}
	return tensor.TypeUint8, nil
}

// Infer implements [ir.Operator].
func (o *QuantizeLinear) Infer(c *ir.InferContext) error {
	d, err := o.elem(c.Elem(2))
	if err != nil {
		return err
	}
	c.SetOut(0, ir.Type{Kind: tensor.KindTensor, Elem: d, Shape: c.Shape(0)})
	return nil
}

// Run implements [ir.Operator].
func (o *QuantizeLinear) Run(c *ir.Call) error {
	x := c.Tensor(0)
	zeroType := tensor.Undefined
	if z := c.Tensor(2); z != nil {
		zeroType = z.DType()
	}
	d, err := o.elem(zeroType)
	if err != nil {
		return err
	}
	p, err := o.Params(c, x.Shape())
	if err != nil {
		return err
	}
	precision := o.Precision
	if precision == tensor.Undefined {
		precision = c.Tensor(1).DType()
	}
	wide, err := kit.ToScratch(c, x, tensor.TypeFloat32)
	if err != nil {
		return err
	}
	out, err := c.Output(0, d, x.Shape()...)
	if err != nil {
		return err
	}
	src := tensor.MustData[float32](wide)
	if !c.Generic {
		l := cpu.Active()
		switch d {
		case tensor.TypeInt8:
			return quantizeFast(c, p, src, precision, tensor.MustData[int8](out))
		case tensor.TypeUint8:
			return quantizeFast(c, p, src, precision, tensor.MustData[uint8](out))
		case tensor.TypeInt16:
			return quantizeBlocks(c, p, src, precision, func(lo int, v []float32) {
				vec.ClipF32(l, v, v, math.MinInt16, math.MaxInt16)
				vec.F32ToI16(l, tensor.MustData[int16](out)[lo:lo+len(v)], v)
			})
		case tensor.TypeUint16:
			return quantizeBlocks(c, p, src, precision, func(lo int, v []float32) {
				vec.ClipF32(l, v, v, 0, math.MaxUint16)
				vec.F32ToU16(l, tensor.MustData[uint16](out)[lo:lo+len(v)], v)
			})
		}
	}
	divide := func(b *kitquant.Block, lo, hi int) {
		elementwise.DivLoop(b.Value[:hi-lo], src[lo:hi], b.Scale[:hi-lo])
		kitquant.RoundTo(b.Value[:hi-lo], precision)
	}
	switch d {
	case tensor.TypeInt8:
		return quantizeInts(c, p, tensor.MustData[int8](out), math.MinInt8, math.MaxInt8, divide)
	case tensor.TypeUint8:
		return quantizeInts(c, p, tensor.MustData[uint8](out), 0, math.MaxUint8, divide)
	case tensor.TypeInt16:
		return quantizeInts(c, p, tensor.MustData[int16](out), math.MinInt16, math.MaxInt16, divide)
	case tensor.TypeUint16:
		return quantizeInts(c, p, tensor.MustData[uint16](out), 0, math.MaxUint16, divide)
	case tensor.TypeInt4, tensor.TypeUint4, tensor.TypeInt2, tensor.TypeUint2:
		// Store one byte per element first, since packed elements share bytes.
		loose, err := ir.ScratchOf[int8](c, x.Len())
		if err != nil {
			return err
		}
		lo, hi := float32(0), float32(int(1)<<d.Bits()-1)
		if d.IsSigned() {
			lo, hi = -float32(int(1)<<(d.Bits()-1)), float32(int(1)<<(d.Bits()-1)-1)
		}
		if err := quantizeInts(c, p, loose, lo, hi, divide); err != nil {
			return err
		}
		memory.PackUint(out.Bytes(), memory.AsBytes(loose), d.Bits())
		return nil
	}
	scaled, err := kit.ScratchTensor(c, tensor.TypeFloat32, x.Shape())
	if err != nil {
		return err
	}
	dst := tensor.MustData[float32](scaled)
	err = p.EachBlock(c, func(b *kitquant.Block, lo, hi int) {
		divide(b, lo, hi)
		if p.Zero != nil {
			elementwise.AddLoop(b.Value[:hi-lo], b.Value[:hi-lo], b.Zero[:hi-lo])
		}
		copy(dst[lo:hi], b.Value[:])
	})
	if err != nil {
		return err
	}
	return kit.ConvertInto(c, out, scaled, tensor.ConvertOptions{Saturate: o.Saturate})
}

// quantizeFast quantizes with vector kernels.
func quantizeFast[T int8 | uint8](c *ir.Call, p *kitquant.Params, src []float32, precision tensor.DType,
	dst []T) error {
	if p.Grid.Vector || kit.IsHalf(precision) {
		return quantizeBlocks(c, p, src, precision,
			func(lo int, v []float32) { quant.Quantize(cpu.Active(), dst[lo:lo+len(v)], v, 1, 0) })
	}
	return p.EachRun(c, p.Grid.Length, func(lo, hi int, scale, zero []float32) {
		z := T(0)
		if zero != nil {
			z = T(zero[0])
		}
		quant.Quantize(cpu.Active(), dst[lo:hi], src[lo:hi], scale[0], z)
	})
}

// quotients holds memory for a block of quotients of quantizeBlocks.
var quotients = sync.Pool{New: func() any { return new([kit.LoopBlock]float32) }}

// roundHalf rounds at most [kit.LoopBlock] elements to float16 or bfloat16.
func roundHalf(x []float32, d tensor.DType) {
	var bits [kit.LoopBlock]uint16
	l, half := cpu.Active(), bits[:len(x)]
	if d == tensor.TypeFloat16 {
		vec.F32ToF16(l, half, x)
		vec.F16ToF32(l, x, half)
	} else {
		vec.F32ToBF16(l, half, x)
		vec.BF16ToF32(l, x, half)
	}
}

// quantizeBlocks computes the quotients of blocks, rounded to a type of lower precision and then to
// integers, plus their zero points, which store limits and converts.
//
//go:noinline
func quantizeBlocks(c *ir.Call, p *kitquant.Params, src []float32, precision tensor.DType,
	store func(lo int, v []float32)) error {
	return p.EachRun(c, kit.LoopBlock, func(lo, hi int, scale, zero []float32) {
		values := quotients.Get().(*[kit.LoopBlock]float32)
		defer quotients.Put(values)
		l, v := cpu.Active(), values[:hi-lo]
		if len(scale) == 1 {
			vec.DivScalarF32(l, v, src[lo:hi], scale[0])
		} else {
			vec.DivF32(l, v, src[lo:hi], scale)
		}
		if kit.IsHalf(precision) {
			roundHalf(v, precision)
		}
		vec.RoundEvenF32(l, v, v)
		switch len(zero) {
		case 0:
		case 1:
			vec.AddScalarF32(l, v, v, zero[0])
		default:
			vec.AddF32(l, v, v, zero)
		}
		store(lo, v)
	})
}

// quantizeInts stores the quotients of a block, rounded, shifted by the zero point and limited to
// [least, most]. NaN becomes least.
func quantizeInts[T int8 | uint8 | int16 | uint16](c *ir.Call, p *kitquant.Params, dst []T, least, most float32,
	divide func(b *kitquant.Block, lo, hi int)) error {
	return p.EachBlock(c, func(b *kitquant.Block, lo, hi int) {
		divide(b, lo, hi)
		y, value := dst[lo:hi], b.Value[:hi-lo]
		zero := b.Zero[:len(value)]
		for i, v := range value {
			v = float32(math.RoundToEven(float64(v)))
			if p.Zero != nil {
				v += zero[i]
			}
			if !(v >= least) {
				v = least
			}
			y[i] = T(min(v, most))
		}
	})
}
