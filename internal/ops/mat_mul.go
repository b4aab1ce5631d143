package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/internal/ops/kit/matmul"
	"github.com/onward-ml/onward/tensor"
)

// MatMul multiplies matrices like numpy.matmul: leading dimensions broadcast, and a vector is a row
// on the left and a column on the right (https://onnx.ai/onnx/operators/onnx__MatMul.html).
type MatMul struct{}

var _ = kit.Register(&kit.Def{Name: "MatMul", Since: kit.Versions{1, 9, 13}, In: "A:T, B:T", Out: "Y:T",
	MACs:  kit.MatMulMACs,
	Types: "T: @float int32 int64 uint32 uint64",
	Build: func(a *kit.Attrs, opset int) kit.Operator { return &MatMul{} },
	Gradient: gradient.Derivatives(
		func(b *gradient.Builder, x, y, z, g string) string {
			return b.Op("MatMul", g, b.Op("onward.SwapLast", y))
		},
		func(b *gradient.Builder, x, y, z, g string) string {
			return b.Op("MatMul", b.Op("onward.SwapLast", x), g)
		})})

// Infer broadcasts the leading dimensions.
func (*MatMul) Infer(c *ir.InferContext) error {
	return matmul.Infer(c, 0, 1, ir.UnrankedTensor(c.Elem(0)))
}

// Run multiplies. float16 and bfloat16 are summed in float32.
func (*MatMul) Run(c *ir.Call) error {
	a, b := c.Tensor(0), c.Tensor(1)
	s, err := matmul.NewShape(a.Shape(), b.Shape())
	if err != nil {
		return err
	}
	switch d := a.DType(); d {
	case tensor.TypeInt32, tensor.TypeUint32, tensor.TypeInt64, tensor.TypeUint64, tensor.TypeFloat64:
		y, err := c.Output(0, d, s.Out...)
		if err != nil {
			return err
		}
		return matmul.Tensors(c, &s, y, a, b)
	}
	x, err := kit.RealIn[float32](c, a)
	if err != nil {
		return err
	}
	w, err := kit.RealIn[float32](c, b)
	if err != nil {
		return err
	}
	y, err := kit.RealOut[float32](c, 0, a.DType(), s.Out...)
	if err != nil {
		return err
	}
	if err := matmul.Batches(c, &s, y.Data, x, w); err != nil {
		return err
	}
	y.Store()
	return nil
}

// matMulPacked is a MatMul of float32 whose right operand is one constant matrix.
type matMulPacked struct {
	MatMul
	b    []int // shape of the constant
	data *matmul.PackedReals
}

// Prepare packs a constant matrix on the right.
func (m *MatMul) Prepare(in []tensor.Value, types []ir.Type) (ir.Operator, []int, error) {
	b, ok := in[1].(*tensor.Tensor)
	if !ok || b.Rank() != 2 || !matmul.Packable(b) {
		return nil, nil, nil
	}
	data, err := matmul.PackMatrix(b, false, false)
	if err != nil {
		return nil, nil, err
	}
	return &matMulPacked{b: b.Shape(), data: data}, []int{1}, nil
}

// Rounded implements [ir.Rounder]. Only packed matrices are rounded.
func (*MatMul) Rounded() ir.Operator { return nil }

// Rounded implements [ir.Rounder].
func (m *matMulPacked) Rounded() ir.Operator {
	if data := m.data.Rounded(); data != nil {
		return &matMulPacked{b: m.b, data: data}
	}
	return nil
}

// Run multiplies by the packed matrix.
func (m *matMulPacked) Run(c *ir.Call) error {
	a := c.Tensor(0)
	s, err := matmul.NewShape(a.Shape(), m.b)
	if err != nil {
		return err
	}
	x, err := kit.RealIn[float32](c, a)
	if err != nil {
		return err
	}
	y, err := kit.RealOut[float32](c, 0, a.DType(), s.Out...)
	if err != nil || len(y.Data) == 0 {
		return err
	}
	g := gemm.Args[float32]{M: s.M, N: s.N, K: s.K, A: x, LdA: s.K, C: y.Data, LdC: s.N}
	m.data.In(&g)
	if c.Capturing {
		if done, err := matmul.LaunchGemm(c, &g); done || err != nil {
			return err
		}
	}
	if err := matmul.GemmParallel(c, &g); err != nil {
		return err
	}
	y.Store()
	return nil
}
