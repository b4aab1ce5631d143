package msft

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/matmul"
	"github.com/onward-ml/onward/tensor"
)

// MatMulIntegerToFloat computes an int8 GEMM, dequantizes the result and adds a bias. A has one
// scale and zero point; B has one for all columns or one per column
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.MatMulIntegerToFloat).
type MatMulIntegerToFloat struct{}

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "MatMulIntegerToFloat", Since: kit.Versions{1},
	MACs: kit.MatMulMACs,
	In:   "A:T1, B:T2, a_scale:T3, b_scale:T3, a_zero_point:T1?, b_zero_point:T2?, bias:T3?",
	Out:  "Y:T3", Types: "T1: " + byteTypes + "; T2: " + byteTypes + "; T3: float float16",
	Build: kit.WithoutAttrs[MatMulIntegerToFloat]})

// Infer broadcasts the leading dimensions.
func (*MatMulIntegerToFloat) Infer(c *ir.InferContext) error {
	if err := matmul.Infer(c, 0, 1, ir.UnrankedTensor(c.Elem(2))); err != nil {
		return err
	}
	return checkQuantizedBias(c, 6, 1)
}

// Run accumulates in int32.
func (m *MatMulIntegerToFloat) Run(c *ir.Call) error { return m.run(c, nil) }

// run multiplies; packed is the packed B if B is constant, else nil.
func (*MatMulIntegerToFloat) run(c *ir.Call, packed *matmul.PackedBytes) error {
	a, b := c.Tensor(0), c.Tensor(1)
	shape, err := matmul.BytesShape(b, packed)
	if err != nil {
		return err
	}
	s, err := matmul.NewShape(a.Shape(), shape)
	if err != nil {
		return err
	}
	if z := c.Tensor(4); z != nil && z.Len() != 1 {
		return fail.Errorf("a_zero_point has shape %v, want one element", z.Shape())
	}
	p := quantizedProduct{shape: &s, bScale: c.Tensor(3), bShape: shape, bias: c.Tensor(6)}
	if p.aScale, err = oneScale(c, "a_scale", c.Tensor(2)); err != nil {
		return err
	}
	y, err := kit.RealOut[float32](c, 0, c.Tensor(2).DType(), s.Out...)
	if err != nil {
		return err
	}
	if p.sums, err = ir.ScratchOf[int32](c, len(y.Data)); err != nil {
		return err
	}
	if err := matmul.BytesBy(c, &s, a, b, packed, c.Tensor(4), c.Tensor(5), p.sums); err != nil {
		return err
	}
	if err := p.reals(c, y.Data); err != nil {
		return err
	}
	y.Store()
	return nil
}

// matMulIntegerToFloatPacked is a MatMulIntegerToFloat with a constant, packed B.
type matMulIntegerToFloatPacked struct {
	MatMulIntegerToFloat
	b *matmul.PackedBytes
}

// Prepare packs a constant B.
func (*MatMulIntegerToFloat) Prepare(in []tensor.Value, types []ir.Type) (ir.Operator, []int, error) {
	if p := matmul.PackBytes(in[1]); p != nil {
		return &matMulIntegerToFloatPacked{b: p}, []int{1}, nil
	}
	return nil, nil, nil
}

// Run multiplies by the packed matrix.
func (m *matMulIntegerToFloatPacked) Run(c *ir.Call) error { return m.run(c, m.b) }
