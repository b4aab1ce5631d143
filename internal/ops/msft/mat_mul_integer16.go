package msft

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/matmul"
	"github.com/onward-ml/onward/tensor"
)

// MatMulInteger16 multiplies matrices of 16-bit integers; sums wrap around at 32 bits.
// The result is unsigned if both inputs are unsigned
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.MatMulInteger16).
type MatMulInteger16 struct{}

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "MatMulInteger16", Since: kit.Versions{1},
	In: "A:T1, B:T2", Out: "Y:T3",
	MACs:  kit.MatMulMACs,
	Types: "T1: int16 uint16; T2: int16 uint16; T3: int32 uint32",
	Build: kit.WithoutAttrs[MatMulInteger16]})

func (*MatMulInteger16) elem(a, b tensor.DType) tensor.DType {
	if a == tensor.TypeUint16 && b == tensor.TypeUint16 {
		return tensor.TypeUint32
	}
	return tensor.TypeInt32
}

// Infer broadcasts the leading dimensions.
func (op *MatMulInteger16) Infer(c *ir.InferContext) error {
	return matmul.Infer(c, 0, 1, ir.UnrankedTensor(op.elem(c.Elem(0), c.Elem(1))))
}

// Run widens the inputs to 32 bits and multiplies them.
func (op *MatMulInteger16) Run(c *ir.Call) error {
	a, b := c.Tensor(0), c.Tensor(1)
	s, err := matmul.NewShape(a.Shape(), b.Shape())
	if err != nil {
		return err
	}
	y, err := c.Output(0, op.elem(a.DType(), b.DType()), s.Out...)
	if err != nil {
		return err
	}
	x, err := kit.ToScratch(c, a, tensor.TypeInt32)
	if err != nil {
		return err
	}
	w, err := kit.ToScratch(c, b, tensor.TypeInt32)
	if err != nil {
		return err
	}
	// The bits of a product modulo 2³² do not depend on signedness.
	return matmul.Batches(c, &s, memory.FromRaw[int32](y.Bytes()), tensor.MustData[int32](x), tensor.MustData[int32](w))
}
