package msft

import (
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// GatherBlockQuantized gathers slices of quantized data along GatherAxis and dequantizes
// them. Blocks of BlockSize consecutive elements along QuantizeAxis share a scale and a
// zero point. uint8 data packs codes of Bits bits along the last dimension, low bits
// first. Indices out of range produce zeros
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.GatherBlockQuantized).
type GatherBlockQuantized struct {
	GatherAxis, QuantizeAxis int
	BlockSize                int // 0: the whole axis
	Bits                     int // bits per code of uint8 data
}

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "GatherBlockQuantized", Since: kit.Versions{1},
	Class: kit.ClassShape,
	In:    "data:T1, indices:Tind, scales:T2, zero_points:T1?", Out: "output:T2",
	Types: "T1: int4 uint4 uint8 @float8 float4e2m1; T2: float float16 bfloat16; Tind: int32 int64",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		op := &GatherBlockQuantized{GatherAxis: a.Int("gather_axis", 0), QuantizeAxis: a.Int("quantize_axis", 1),
			BlockSize: a.Int("block_size", 128), Bits: a.Int("bits", 4)}
		if b := op.BlockSize; b < 0 || b != 0 && (b < 16 || b&(b-1) != 0) {
			a.Errorf("attribute block_size is %d, want 0 or a power of two of at least 16", b)
		}
		if b := op.Bits; b != 2 && b != 4 && b != 8 {
			a.Errorf("attribute bits is %d, want 2, 4 or 8", b)
		}
		return op
	}})

// parts returns the number of codes packed into one element of data.
func (op *GatherBlockQuantized) parts(d tensor.DType) int {
	if d == tensor.TypeUint8 {
		return 8 / op.Bits
	}
	return 1
}

func (op *GatherBlockQuantized) axes(d tensor.DType, rank int) (gather, quantize int, err error) {
	if gather, err = kit.NormalAxis(op.GatherAxis, rank); err != nil {
		return 0, 0, fail.Errorf("attribute gather_axis: %w", err)
	}
	if quantize, err = kit.NormalAxis(op.QuantizeAxis, rank); err != nil {
		return 0, 0, fail.Errorf("attribute quantize_axis: %w", err)
	}
	if d == tensor.TypeUint8 && (gather != 0 || quantize != rank-1 || rank < 2) {
		return 0, 0,
			fail.Errorf("gather_axis is %d and quantize_axis %d; uint8 data requires the first and the last of %d axes",
				op.GatherAxis, op.QuantizeAxis, rank)
	}
	return gather, quantize, nil
}

// Infer implements [ir.Operator].
func (op *GatherBlockQuantized) Infer(c *ir.InferContext) error {
	kit.SetShape(c, 0, c.Elem(2), nil)
	data, idx := c.Shape(0), c.Shape(1)
	if data == nil {
		return nil
	}
	gather, _, err := op.axes(c.Elem(0), len(data))
	if err != nil || idx == nil {
		return err
	}
	out := slices.Concat(data[:gather], idx, data[gather+1:])
	if n := len(out); n > 0 {
		out[n-1] = out[n-1].Mul(ir.Known(op.parts(c.Elem(0))))
	}
	kit.SetShape(c, 0, c.Elem(2), out)
	return nil
}

// Run implements [ir.Operator].
func (op *GatherBlockQuantized) Run(c *ir.Call) error {
	data, idx, scales, zeros := c.Tensor(0), c.Tensor(1), c.Tensor(2), c.Tensor(3)
	d, rank := data.DType(), data.Rank()
	gather, quantize, err := op.axes(d, rank)
	if err != nil {
		return err
	}
	parts := op.parts(d)
	shape := slices.Clone(data.Shape())
	shape[rank-1] *= parts
	values, bits := op.codes(d)
	real := d.IsFloat8() || d == tensor.TypeFloat4E2M1
	if real && zeros != nil {
		return fail.Errorf("zero_points are not supported for data of type %s", d)
	}
	block := op.BlockSize
	if block == 0 {
		if !real {
			return fail.Errorf("block_size 0 is not supported for data of type %s", d)
		}
		block = max(1, shape[quantize])
	}
	want := slices.Clone(shape)
	want[quantize] = (shape[quantize] + block - 1) / block
	scale, err := op.scales(c, scales, want, quantize, real)
	if err != nil {
		return err
	}
	zero, err := op.zeros(c, zeros, want, parts, values, bits)
	if err != nil {
		return err
	}
	out := slices.Concat(shape[:gather], idx.Shape(), shape[gather+1:])
	y, err := kit.RealOut[float32](c, 0, scales.DType(), out...)
	if err != nil || len(y.Data) == 0 {
		return err
	}
	span, q := kit.SpanOf(shape, gather), kit.SpanOf(shape, quantize)
	blocks := want[quantize]
	at := kit.Ints(idx)
	codes := data.Bytes()
	const most = 1 << 12 // elements of a piece: slices may be long
	pieces := (span.Inner + most - 1) / most
	kit.ParallelEach(c, span.Outer*len(at)*pieces, min(span.Inner, most), func(k int) {
		from := k % pieces * most
		k /= pieces
		dst := y.Data[k*span.Inner:][from:min(from+most, span.Inner)]
		i := at[k%len(at)]
		if i < 0 {
			i += span.N
		}
		if i < 0 || i >= span.N {
			clear(dst)
			return
		}
		first := (k/len(at)*span.N+i)*span.Inner + from
		for j := range dst {
			p := first + j
			s := (p/(q.N*q.Inner)*blocks+p/q.Inner%q.N/block)*q.Inner + p%q.Inner
			v := values[packedCode(codes, p, bits)]
			if zero != nil {
				v -= zero[s]
			}
			dst[j] = v * scale[s]
		}
	})
	y.Store()
	return nil
}

// codes returns the value of each code, and the number of bits of a code.
func (op *GatherBlockQuantized) codes(d tensor.DType) (*[256]float32, int) {
	var v [256]float32
	bits := 8
	for i := range v {
		b := byte(i)
		switch d {
		case tensor.TypeFloat8E4M3FN:
			v[i] = tensor.Float8E4M3FN(b).Float32()
		case tensor.TypeFloat8E4M3FNUZ:
			v[i] = tensor.Float8E4M3FNUZ(b).Float32()
		case tensor.TypeFloat8E5M2:
			v[i] = tensor.Float8E5M2(b).Float32()
		case tensor.TypeFloat8E5M2FNUZ:
			v[i] = tensor.Float8E5M2FNUZ(b).Float32()
		case tensor.TypeFloat4E2M1:
			v[i], bits = tensor.Float4E2M1(b&15).Float32(), 4
		case tensor.TypeInt4:
			v[i], bits = float32(int8(b<<4)>>4), 4
		case tensor.TypeUint4:
			v[i], bits = float32(b), 4
		default:
			v[i], bits = float32(b), op.Bits
		}
	}
	return &v, bits
}

// scales reads the scales. For float data they may broadcast along axes other than the
// quantized one.
func (op *GatherBlockQuantized) scales(c *ir.Call, t *tensor.Tensor, want []int, quantize int,
	real bool) ([]float32, error) {
	s := t.Shape()
	fits := len(s) == len(want)
	for i := 0; fits && i < len(s); i++ {
		fits = s[i] == want[i] || real && i != quantize && s[i] == 1
	}
	if !fits {
		return nil, fail.Errorf("scales has shape %v, want %v", s, want)
	}
	if slices.Equal(s, want) {
		return kit.RealIn[float32](c, t)
	}
	return addBroadcast[float32](c, want, t)
}

// zeros reads the zero points, one per scale. It returns nil if all are 0.
func (op *GatherBlockQuantized) zeros(c *ir.Call, t *tensor.Tensor, want []int, parts int, values *[256]float32,
	bits int) ([]float32, error) {
	if t == nil && (c.Tensor(0).DType() != tensor.TypeUint8) {
		return nil, nil
	}
	z, err := ir.ScratchOf[float32](c, kit.Product(want))
	if err != nil {
		return nil, err
	}
	if t == nil {
		kit.RepeatOf(z, float32(int(1)<<(op.Bits-1)))
		return z, nil
	}
	last := len(want) - 1
	packed := slices.Clone(want)
	packed[last] = (want[last] + parts - 1) / parts
	if !slices.Equal(t.Shape(), packed) {
		return nil, fail.Errorf("zero_points has shape %v, want %v", t.Shape(), packed)
	}
	codes := t.Bytes()
	for i := range z {
		p := i
		if parts > 1 {
			p = i/want[last]*packed[last]*parts + i%want[last]
		}
		z[i] = values[packedCode(codes, p, bits)]
	}
	return z, nil
}
