package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/matmul"
	"github.com/onward-ml/onward/tensor"
)

// MatMulInteger multiplies matrices of 8-bit integers, minus their zero points, to int32. The zero
// point of A may be per row and that of B per column
// (https://onnx.ai/onnx/operators/onnx__MatMulInteger.html).
type MatMulInteger struct{}

var _ = kit.Register(&kit.Def{Name: "MatMulInteger", Since: kit.Versions{10},
	In: "A:T1, B:T2, a_zero_point:T1?, b_zero_point:T2?", Out: "Y:T3",
	MACs:  kit.MatMulMACs,
	Types: "T1: int8 uint8; T2: int8 uint8; T3: int32",
	Build: func(a *kit.Attrs, opset int) kit.Operator { return &MatMulInteger{} }})

// Infer broadcasts the leading dimensions.
func (*MatMulInteger) Infer(c *ir.InferContext) error {
	return matmul.Infer(c, 0, 1, ir.UnrankedTensor(tensor.TypeInt32))
}

// Run adds in int32.
func (*MatMulInteger) Run(c *ir.Call) error { return matMulInteger(c, nil) }

// matMulInteger computes the int8 GEMM. packed holds B if it is constant.
func matMulInteger(c *ir.Call, packed *matmul.PackedBytes) error {
	a, b := c.Tensor(0), c.Tensor(1)
	shape, err := matmul.BytesShape(b, packed)
	if err != nil {
		return err
	}
	s, err := matmul.NewShape(a.Shape(), shape)
	if err != nil {
		return err
	}
	y, err := c.Output(0, tensor.TypeInt32, s.Out...)
	if err != nil {
		return err
	}
	return matmul.BytesBy(c, &s, a, b, packed, c.Tensor(2), c.Tensor(3), tensor.MustData[int32](y))
}

// matMulIntegerPacked is a MatMulInteger whose B is one constant matrix.
type matMulIntegerPacked struct {
	MatMulInteger
	b *matmul.PackedBytes
}

// Prepare packs a constant B.
func (m *MatMulInteger) Prepare(in []tensor.Value, types []ir.Type) (ir.Operator, []int, error) {
	if p := matmul.PackBytes(in[1]); p != nil {
		return &matMulIntegerPacked{b: p}, []int{1}, nil
	}
	return nil, nil, nil
}

// Run multiplies by the packed matrix.
func (m *matMulIntegerPacked) Run(c *ir.Call) error { return matMulInteger(c, m.b) }
