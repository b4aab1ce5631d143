package msft

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/quant"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/matmul"
	kitquant "github.com/onward-ml/onward/internal/ops/kit/quant"
	"github.com/onward-ml/onward/tensor"
)

// DynamicQuantizeMatMul quantizes A to uint8 as DynamicQuantizeLinear does, multiplies it
// by the quantized B, and adds a bias
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.DynamicQuantizeMatMul).
type DynamicQuantizeMatMul struct{}

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "DynamicQuantizeMatMul", Since: kit.Versions{1},
	MACs: kit.MatMulMACs,
	In:   "A:T1, B:T2, b_scale:T1, b_zero_point:T2?, bias:T1?", Out: "Y:T1", Types: "T1: float; T2: " + byteTypes,
	Build: kit.WithoutAttrs[DynamicQuantizeMatMul]})

// Infer broadcasts the leading dimensions.
func (*DynamicQuantizeMatMul) Infer(c *ir.InferContext) error {
	if err := matmul.Infer(c, 0, 1, ir.UnrankedTensor(c.Elem(0))); err != nil {
		return err
	}
	return checkQuantizedBias(c, 4, 1)
}

// Run accumulates in int32.
func (d *DynamicQuantizeMatMul) Run(c *ir.Call) error { return d.run(c, nil) }

// run multiplies; packed is the packed B if B is constant, else nil.
func (*DynamicQuantizeMatMul) run(c *ir.Call, packed *matmul.PackedBytes) error {
	a, b := c.Tensor(0), c.Tensor(1)
	shape, err := matmul.BytesShape(b, packed)
	if err != nil {
		return err
	}
	s, err := matmul.NewShape(a.Shape(), shape)
	if err != nil {
		return err
	}
	y, err := c.Output(0, tensor.TypeFloat32, s.Out...)
	if err != nil {
		return err
	}
	q, err := kit.ScratchTensor(c, tensor.TypeUint8, a.Shape())
	if err != nil {
		return err
	}
	scale, zero := dynamicQuantize(c, tensor.MustData[uint8](q), tensor.MustData[float32](a))
	p := quantizedProduct{shape: &s, aScale: scale, bScale: c.Tensor(2), bShape: shape, bias: c.Tensor(4)}
	if p.sums, err = ir.ScratchOf[int32](c, y.Len()); err != nil {
		return err
	}
	az, err := kit.ScratchTensor(c, tensor.TypeUint8, nil)
	if err != nil {
		return err
	}
	tensor.MustData[uint8](az)[0] = zero
	if err := matmul.BytesBy(c, &s, q, b, packed, az, c.Tensor(3), p.sums); err != nil {
		return err
	}
	return p.reals(c, tensor.MustData[float32](y))
}

// dynamicQuantizeMatMulPacked is a DynamicQuantizeMatMul with a constant, packed B.
type dynamicQuantizeMatMulPacked struct {
	DynamicQuantizeMatMul
	b *matmul.PackedBytes
}

// Prepare packs a constant B.
func (*DynamicQuantizeMatMul) Prepare(in []tensor.Value, types []ir.Type) (ir.Operator, []int, error) {
	if p := matmul.PackBytes(in[1]); p != nil {
		return &dynamicQuantizeMatMulPacked{b: p}, []int{1}, nil
	}
	return nil, nil, nil
}

// Run multiplies by the packed matrix.
func (d *dynamicQuantizeMatMulPacked) Run(c *ir.Call) error { return d.run(c, d.b) }

// dynamicQuantize quantizes src to dst and returns the scale and zero point, which are
// chosen for the range of src extended to include 0.
func dynamicQuantize(c *ir.Call, dst []uint8, src []float32) (scale float32, zero uint8) {
	scale, shift := kitquant.DynamicRange(c, src)
	zero = kitquant.Byte(shift)
	if !c.Generic {
		l := cpu.Active()
		if len(src) <= kit.GrainCheap {
			quant.Quantize(l, dst, src, scale, zero)
			return scale, zero
		}
		c.Parallel(len(src), kit.GrainCheap, func(lo, hi int) {
			quant.Quantize(l, dst[lo:hi], src[lo:hi], scale, zero)
		})
		return scale, zero
	}
	c.Parallel(len(src), kit.GrainCheap, func(lo, hi int) {
		y := dst[lo:hi]
		for i, v := range src[lo:hi] {
			y[i] = kitquant.Byte(float32(math.RoundToEven(float64(v/scale))) + shift)
		}
	})
	return scale, zero
}
