package msft

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/tensor"
)

// MulInteger subtracts the zero points from 8-bit integers and multiplies them to int32
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.MulInteger).
type MulInteger struct{}

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "MulInteger", Since: kit.Versions{1},
	Class: kit.ClassArithmetic,
	In:    "A:T, A_zero_point:T?, B:T, B_zero_point:T?", Out: "C:T1", Types: "T: " + byteTypes + "; T1: int32",
	Build: kit.WithoutAttrs[MulInteger]})

// Infer broadcasts the shapes.
func (*MulInteger) Infer(c *ir.InferContext) error {
	shape, err := kit.BroadcastDims(c.Shape(0), c.Shape(2))
	kit.SetShape(c, 0, tensor.TypeInt32, shape)
	return err
}

// Run implements [ir.Operator].
func (*MulInteger) Run(c *ir.Call) error {
	a, b := c.Tensor(0), c.Tensor(2)
	shape, err := kit.BroadcastShapes(a.Shape(), b.Shape())
	if err != nil {
		return err
	}
	q := byteQuant{signed: a.DType() == tensor.TypeInt8}
	var zero [2]int32
	for i, name := range []string{"A", "B"} {
		if z := c.Tensor(1 + 2*i); z != nil {
			if z.Len() != 1 {
				return fail.Errorf("the zero point of %s has shape %v, want one element", name, z.Shape())
			}
			zero[i] = q.int(z.Bytes()[0])
		}
	}
	l := elementwise.Loop{In: a.DType(), Out: tensor.TypeInt32, Arity: 2, Run: func(out []byte, in *[3][]byte) {
		dst := memory.FromRaw[int32](out)
		x, y := in[0][:len(dst)], in[1][:len(dst)]
		for i := range dst {
			dst[i] = (q.int(x[i]) - zero[0]) * (q.int(y[i]) - zero[1])
		}
	}}
	return elementwise.RunLoop(c, l, kit.GrainCheap, shape, []*tensor.Tensor{a, b}, [][]int{a.Shape(), b.Shape()})
}
