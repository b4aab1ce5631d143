package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/quant"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/matmul"
	"github.com/onward-ml/onward/tensor"
)

// QLinearMatMul multiplies quantized matrices: (a − a_zero)·a_scale times (b − b_zero)·b_scale,
// divided by y_scale, rounded to nearest, ties to even, plus y_zero. Parameters of a and y may be
// per row, those of b per column. 8-bit integers are added in int32, 8-bit floats in float32
// (https://onnx.ai/onnx/operators/onnx__QLinearMatMul.html).
type QLinearMatMul struct{}

var _ = kit.Register(&kit.Def{Name: "QLinearMatMul", Since: kit.Versions{10, 21},
	MACs: kit.MatMulMACs,
	In:   "a:T1, a_scale:TS, a_zero_point:T1, b:T2, b_scale:TS, b_zero_point:T2, y_scale:TS, y_zero_point:T3",
	Out:  "y:T3", Types: "TS: float float16 bfloat16; T1: int8 uint8 @float8; T2: int8 uint8 @float8; " +
		"T3: int8 uint8 @float8",
	Build: func(a *kit.Attrs, opset int) kit.Operator { return &QLinearMatMul{} }})

// Infer broadcasts the leading dimensions.
func (*QLinearMatMul) Infer(c *ir.InferContext) error {
	return matmul.Infer(c, 0, 3, ir.UnrankedTensor(c.Elem(7)))
}

// Run multiplies, then scales.
func (*QLinearMatMul) Run(c *ir.Call) error { return qLinearMatMul(c, nil) }

// qLinearMatMul computes the int8 GEMM and requantizes. packed holds b if it is constant.
func qLinearMatMul(c *ir.Call, packed *matmul.PackedBytes) error {
	a, b := c.Tensor(0), c.Tensor(3)
	bs, err := matmul.BytesShape(b, packed)
	if err != nil {
		return err
	}
	s, err := matmul.NewShape(a.Shape(), bs)
	if err != nil {
		return err
	}
	y, err := c.Output(0, c.Tensor(7).DType(), s.Out...)
	if err != nil || y.Len() == 0 {
		return err
	}
	bytes := kit.IsByte(a.DType()) && (packed != nil || kit.IsByte(b.DType()))
	if bytes && !c.Generic {
		out, err := qLinearBytes(c, &s, y)
		if err != nil {
			return err
		}
		if out != nil {
			return matmul.Quantized(c, &s, a, b, packed, bs, c.Tensor(2), c.Tensor(5), nil, out)
		}
	}
	var whole []int32
	if bytes {
		if whole, err = ir.ScratchOf[int32](c, y.Len()); err != nil {
			return err
		}
		if err := matmul.BytesBy(c, &s, a, b, packed, c.Tensor(2), c.Tensor(5), whole); err != nil {
			return err
		}
	}
	sums, err := ir.ScratchOf[float32](c, y.Len())
	if err != nil {
		return err
	}
	if bytes {
		for i, v := range whole {
			sums[i] = float32(v)
		}
	} else if err := matMulSmallFloats(c, &s, sums); err != nil {
		return err
	}
	return qLinearScale(c, y, sums, bs)
}

// qLinearBytes returns the requantization of the sums to y. It returns nil unless all parameters
// are scalars, except for a scale of b per column.
func qLinearBytes(c *ir.Call, s *matmul.Shape, y *tensor.Tensor) (*quant.Requantized, error) {
	as, bs, ys, yz := c.Tensor(1), c.Tensor(4), c.Tensor(6), c.Tensor(7)
	if !kit.IsByte(y.DType()) || as.Len() != 1 || ys.Len() != 1 || yz.Len() != 1 || bs.Len() != 1 && bs.Len() != s.N {
		return nil, nil
	}
	var f [3][]float32
	for i, t := range []*tensor.Tensor{as, bs, ys} {
		var err error
		if f[i], err = kit.RealIn[float32](c, t); err != nil {
			return nil, err
		}
	}
	scale, err := ir.ScratchOf[float32](c, bs.Len())
	if err != nil {
		return nil, err
	}
	for i, v := range f[1] {
		scale[i] = f[0][0] * v / f[2][0]
	}
	zero, err := matmul.BytesLess(c, yz, nil, 1)
	if err != nil {
		return nil, err
	}
	return &quant.Requantized{Y: y.Bytes(), Signed: y.DType() == tensor.TypeInt8, Scale: scale, Zero: zero[0]}, nil
}

// qLinearMatMulPacked is a QLinearMatMul whose b is one constant matrix of 8-bit integers.
type qLinearMatMulPacked struct {
	QLinearMatMul
	b *matmul.PackedBytes
}

// Prepare packs a constant b.
func (m *QLinearMatMul) Prepare(in []tensor.Value, types []ir.Type) (ir.Operator, []int, error) {
	if p := matmul.PackBytes(in[3]); p != nil && kit.IsByte(types[0].Elem) {
		return &qLinearMatMulPacked{b: p}, []int{3}, nil
	}
	return nil, nil, nil
}

// Run multiplies by the packed matrix.
func (m *qLinearMatMulPacked) Run(c *ir.Call) error { return qLinearMatMul(c, m.b) }

// matMulSmallFloats multiplies inputs of which at least one has an 8-bit floating-point type.
func matMulSmallFloats(c *ir.Call, s *matmul.Shape, y []float32) error {
	var m [2][]float32
	for i, at := range []int{0, 3} {
		t, zero := c.Tensor(at), c.Tensor(at+2)
		q, err := matmul.NewQuantParam([]string{"zero point of A", "zero point of B"}[i], zero, t.Shape(), i == 1)
		if err != nil {
			return err
		}
		z, err := smallFloats(c, zero)
		if err != nil {
			return err
		}
		if m[i], err = smallFloats(c, t); err != nil {
			return err
		}
		v := m[i]
		for at := 0; at < len(v); at += q.Cols {
			line := at / q.Cols
			k, step := q.Line(line/q.Rows, line%q.Rows)
			for j := range v[at:][:q.Cols] {
				v[at+j] -= z[k+j*step]
			}
		}
	}
	return matmul.Batches(c, s, y, m[0], m[1])
}

// smallFloats converts a tensor of 8-bit numbers to float32.
func smallFloats(c *ir.Call, t *tensor.Tensor) ([]float32, error) {
	r, err := ir.ScratchOf[float32](c, t.Len())
	if err != nil {
		return nil, err
	}
	wide, err := tensor.New(r, len(r))
	if err != nil {
		return nil, err
	}
	return r, tensor.ConvertInto(wide, t, nil)
}

// qLinearScale quantizes sums to y with the scales and the zero point of the call. bs is the shape
// of b.
func qLinearScale(c *ir.Call, y *tensor.Tensor, sums []float32, bs []int) error {
	a := c.Tensor(0)
	ys := y.Shape()
	if a.Rank() == 1 || len(bs) == 1 { // a vector is a row or a column
		ys = append([]int{}, ys...)
		if len(bs) == 1 {
			ys = append(ys, 1)
		}
		if a.Rank() == 1 {
			ys = append(ys, ys[len(ys)-1])
			ys[len(ys)-2] = 1
		}
	}
	var q [4]matmul.QuantParam
	var v [4][]float32
	for i, p := range []struct {
		name  string
		in    int
		shape []int
	}{{"a_scale", 1, a.Shape()}, {"b_scale", 4, bs}, {"y_scale", 6, ys}, {"y_zero_point", 7, ys}} {
		t := c.Tensor(p.in)
		var err error
		if q[i], err = matmul.NewQuantParam(p.name, t, p.shape, i == 1); err != nil {
			return err
		}
		if i < 3 {
			v[i], err = kit.RealIn[float32](c, t)
		} else {
			v[i], err = smallFloats(c, t)
		}
		if err != nil {
			return err
		}
	}
	// The matrices of a and b for each matrix of y.
	s, err := matmul.NewShape(a.Shape(), bs)
	if err != nil {
		return err
	}
	rows, cols := q[2].Rows, q[2].Cols
	round := kit.IsByte(y.DType())
	for at := 0; at < len(sums); at += cols {
		line := at / cols
		m, row := line/rows, line%rows
		ma, mb := m, 0
		if len(bs) > 2 {
			ma, mb = s.At(m)
		}
		ka, _ := q[0].Line(ma, row)
		kb, step := q[1].Line(mb, 0)
		ky, _ := q[2].Line(m, row)
		kz, _ := q[3].Line(m, row)
		sa, sy, z := v[0][ka], v[2][ky], v[3][kz]
		for j := range sums[at:][:cols] {
			x := sums[at+j] * (sa * v[1][kb+j*step] / sy)
			if round {
				x = float32(math.RoundToEven(float64(x)))
			}
			sums[at+j] = x + z
		}
	}
	switch y.DType() {
	case tensor.TypeInt8:
		saturateBytes(tensor.MustData[int8](y), sums, -128, 127)
	case tensor.TypeUint8:
		saturateBytes(tensor.MustData[uint8](y), sums, 0, 255)
	default:
		wide, err := tensor.New(sums, len(sums))
		if err != nil {
			return err
		}
		return tensor.ConvertInto(y, wide, &tensor.ConvertOptions{Saturate: true})
	}
	return nil
}

// saturateBytes converts integral numbers; NaN becomes the smallest integer.
func saturateBytes[T int8 | uint8](dst []T, src []float32, lo, hi float32) {
	for i, x := range src {
		if !(x > lo) {
			x = lo
		}
		dst[i] = T(min(x, hi))
	}
}
