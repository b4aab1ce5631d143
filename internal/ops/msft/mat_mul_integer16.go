package msft

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// MatMulInteger16 multiplies matrices of 16-bit integers; sums wrap around at 32 bits.
// The result is unsigned if both inputs are unsigned
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.MatMulInteger16).
type MatMulInteger16 struct{}

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "MatMulInteger16", Since: kit.Versions{1}, In: "A:T1, B:T2", Out: "Y:T3",
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
	return kit.InferMatMul(c, 0, 1, ir.UnrankedTensor(op.elem(c.Elem(0), c.Elem(1))))
}

// Run widens the inputs to 32 bits and multiplies them.
func (op *MatMulInteger16) Run(c *ir.Call) error {
	a, b := c.Tensor(0), c.Tensor(1)
	s, err := kit.NewMatMulShape(a.Shape(), b.Shape())
	if err != nil {
		return err
	}
	y, err := c.Output(0, op.elem(a.DType(), b.DType()), s.Out...)
	if err != nil {
		return err
	}
	x, err := widen16(c, a)
	if err != nil {
		return err
	}
	w, err := widen16(c, b)
	if err != nil {
		return err
	}
	// The bits of a product modulo 2³² do not depend on signedness.
	return kit.MatMulBatches(c, &s, memory.FromRaw[int32](y.Bytes()), x, w)
}

// widen16 returns 16-bit integers as int32.
func widen16(c *ir.Call, t *tensor.Tensor) ([]int32, error) {
	r, err := ir.ScratchOf[int32](c, t.Len())
	if err != nil {
		return nil, err
	}
	switch t.DType() {
	case tensor.TypeInt16:
		widenInto(c, r, tensor.Of[int16](t))
	case tensor.TypeUint16:
		widenInto(c, r, tensor.Of[uint16](t))
	default:
		return nil, fail.Errorf("elements are %s, want 16-bit integers", t.DType())
	}
	return r, nil
}

func widenInto[T int16 | uint16](c *ir.Call, dst []int32, src []T) {
	c.Parallel(len(src), kit.GrainCheap, func(lo, hi int) {
		for i, v := range src[lo:hi] {
			dst[lo+i] = int32(v)
		}
	})
}
