package msft

import (
	"slices"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/kernels/quant"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/matmul"
	"github.com/onward-ml/onward/internal/ops/kit/move"
	"github.com/onward-ml/onward/tensor"
)

// QGemm computes Alpha·a_scale·b_scale·(A'·B' + C) of quantized matrices. The result is
// float32, or quantized if y_scale is given
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QGemm).
type QGemm struct {
	ops.Gemm
}

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "QGemm", Since: kit.Versions{1},
	MACs: kit.GemmMACs,
	In:   "A:TA, a_scale:T, a_zero_point:TA, B:TB, b_scale:T, b_zero_point:TB, C:TC?, y_scale:T?, y_zero_point:TYZ?",
	Out:  "Y:TY",
	Types: "T: float; TA: " + byteTypes + "; TB: " + byteTypes + "; TC: int32; TYZ: " + byteTypes +
		"; TY: float " + byteTypes,
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &QGemm{ops.Gemm{Alpha: a.Float("alpha", 1), Beta: 1, TransA: a.Bool("transA", false),
			TransB: a.Bool("transB", false)}}
	}})

// Infer checks the inner dimensions.
func (g *QGemm) Infer(c *ir.InferContext) error {
	elem := tensor.TypeFloat32
	if c.Has(8) {
		elem = c.Elem(8)
	}
	shape, err := g.Dims(c.Shape(0), c.Shape(3), c.Shape(6))
	kit.SetShape(c, 0, elem, shape)
	if err == nil && c.Has(8) && !c.Has(7) {
		err = fail.Errorf("y_zero_point is given but no y_scale")
	}
	return err
}

// Run accumulates in int32.
func (g *QGemm) Run(c *ir.Call) error { return g.run(c, nil) }

// run multiplies; packed is the packed B if B is constant, else nil.
func (g *QGemm) run(c *ir.Call, packed *matmul.PackedBytes) error {
	a, b, add := c.Tensor(0), c.Tensor(3), c.Tensor(6)
	shape, err := matmul.BytesShape(b, packed)
	if err != nil {
		return err
	}
	m, n, k, err := g.Shape(a.Shape(), shape)
	if err != nil {
		return err
	}
	scale, err := oneScale(c, "a_scale", c.Tensor(1))
	if err != nil {
		return err
	}
	if z := c.Tensor(2); z.Len() != 1 {
		return fail.Errorf("a_zero_point has shape %v, want one element", z.Shape())
	}
	bs := tensor.MustData[float32](c.Tensor(4))
	if len(bs) != 1 && len(bs) != n {
		return fail.Errorf("b_scale has shape %v, want one element or [%d]", c.Tensor(4).Shape(), n)
	}
	rb, err := matmul.NewQuantParam("zero point of B", c.Tensor(5), shape, !g.TransB)
	if err != nil {
		return err
	}
	scale *= g.Alpha
	d := tensor.TypeFloat32
	var out byteQuant
	if z := c.Tensor(8); z != nil {
		d = z.DType()
		if !c.Has(7) {
			return fail.Errorf("y_zero_point is given but no y_scale")
		}
		if out, err = byteQuantOf(c, "Y", d, 7, 8); err != nil {
			return err
		}
	}
	rs, cs, err := matmul.GemmAddSteps(add, m, n)
	if err != nil {
		return err
	}
	y, err := c.Output(0, d, m, n)
	if err != nil || y.Len() == 0 {
		return err
	}
	sums, err := ir.ScratchOf[int32](c, m*n)
	if err != nil {
		return err
	}
	if g.TransA && !c.Generic && k > 0 {
		if a, err = transposed(c, a, m, k); err != nil {
			return err
		}
	}
	if packed == nil && !c.Generic && k > 0 {
		if err := c.Reserve(matmul.QuantLen(k, n)); err != nil {
			return err
		}
		packed = matmul.PackBytesTrans(b, g.TransB)
	}
	if packed == nil {
		err = g.widened(c, sums, m, n, k, rb)
	} else {
		s := matmul.Shape{M: m, N: n, K: k}
		err = matmul.Quantized(c, &s, a, nil, packed, []int{k, n}, c.Tensor(2), c.Tensor(5), sums, nil)
	}
	if err != nil {
		return err
	}
	var bias []int32
	if add != nil {
		bias = tensor.MustData[int32](add)
	}
	// Short rows are processed several at a time; factors and a bias that is the same for all rows
	// are repeated.
	fast := !c.Generic && (bias == nil || rs == 0 || rs == n && (cs == 1 || n == 1))
	rows := 1
	if fast {
		rows = max(1, min(m, 256/n))
	}
	l := cpu.Active()
	factors := make([]float32, rows*n)
	if len(bs) == 1 {
		bs = slices.Repeat(bs, n)
	}
	vec.MulScalarF32(l, factors[:n], bs, scale)
	if d != tensor.TypeFloat32 {
		vec.DivScalarF32(l, factors[:n], factors[:n], out.scale)
	}
	repeat(factors, n)
	if fast && bias != nil && rs == 0 {
		once := bias
		bias = make([]int32, rows*n)
		for j := range bias[:n] {
			bias[j] = once[j*cs]
		}
		repeat(bias, n)
	}
	row := make([]float32, n)
	for i := 0; i < m; i += rows {
		if i/rows%256 == 0 && c.Err() != nil {
			return c.Err()
		}
		line := sums[i*n : min(m, i+rows)*n]
		if fast {
			if bias != nil {
				vec.AddI32(l, line, line, bias[i*rs:][:len(line)])
			}
			if d == tensor.TypeFloat32 {
				to := tensor.MustData[float32](y)[i*n:][:len(line)]
				vec.I32ToF32(l, to, line)
				vec.MulF32(l, to, to, factors[:len(line)])
			} else if out.signed {
				quant.Requantize(l, tensor.MustData[int8](y)[i*n:][:len(line)], line,
					factors[:len(line)], int8(out.zero))
			} else {
				quant.Requantize(l, tensor.MustData[uint8](y)[i*n:][:len(line)], line, factors[:len(line)],
					uint8(out.zero))
			}
			continue
		}
		for j, v := range line {
			if bias != nil {
				v += bias[i*rs+j*cs]
			}
			row[j] = float32(v) * factors[j]
		}
		if d == tensor.TypeFloat32 {
			copy(tensor.MustData[float32](y)[i*n:], row)
		} else {
			out.quantize(y.Bytes()[i*n:][:n], row)
		}
	}
	return nil
}

// repeat copies the first n elements of dst to the rest.
func repeat[T any](dst []T, n int) {
	for ; n < len(dst); n *= 2 {
		copy(dst[n:], dst[:n])
	}
}

// transposed returns the m×k transpose of an int8 or uint8 matrix.
func transposed(c *ir.Call, a *tensor.Tensor, m, k int) (*tensor.Tensor, error) {
	raw, err := ir.ScratchOf[byte](c, m*k)
	if err != nil {
		return nil, err
	}
	t, err := tensor.FromBytes(a.DType(), raw, m, k)
	if err != nil {
		return nil, err
	}
	src, err := move.In(c, a)
	if err != nil {
		return nil, err
	}
	dst, err := move.Into(c, t)
	if err == nil {
		move.Strided(c, dst, src, []int{m, k}, []int{k, 1}, 0, []int{1, m}, 0)
	}
	return t, err
}

// widened computes the sums from inputs widened to int32.
func (g *QGemm) widened(c *ir.Call, sums []int32, m, n, k int, rb matmul.QuantParam) error {
	a, b := c.Tensor(0), c.Tensor(3)
	as, err := matmul.BytesLess(c, a, c.Tensor(2), 1)
	if err != nil {
		return err
	}
	ws, err := matmul.BytesLessParam(c, b, c.Tensor(5), rb)
	if err != nil {
		return err
	}
	return matmul.One(c, &gemm.Args[int32]{M: m, N: n, K: k, A: as, LdA: a.Dim(1), TransA: g.TransA, B: ws,
		LdB: b.Dim(1), TransB: g.TransB, C: sums, LdC: n})
}

// qGemmPacked is a QGemm with a constant, packed B.
type qGemmPacked struct {
	QGemm
	b *matmul.PackedBytes
}

// Prepare packs a constant B.
func (g *QGemm) Prepare(in []tensor.Value, types []ir.Type) (ir.Operator, []int, error) {
	if p := matmul.PackBytesTrans(in[3], g.TransB); p != nil {
		return &qGemmPacked{*g, p}, []int{3}, nil
	}
	return nil, nil, nil
}

// Run multiplies by the packed matrix.
func (g *qGemmPacked) Run(c *ir.Call) error { return g.run(c, g.b) }
