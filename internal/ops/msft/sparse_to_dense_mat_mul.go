package msft

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/matmul"
	"github.com/onward-ml/onward/internal/ops/kit/move"
	"github.com/onward-ml/onward/tensor"
)

// SparseToDenseMatMul is Alpha times the product of a sparse and a dense matrix, either
// of which may be transposed first
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.SparseToDenseMatMul).
type SparseToDenseMatMul struct{ ops.Gemm }

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "SparseToDenseMatMul", Since: kit.Versions{1},
	In: "A:T, B:T1", Out: "Y:T1",
	Types: "T: sparse(float) sparse(double) sparse(int64) sparse(int32) sparse(uint64) sparse(uint32); T1: float " +
		"double int64 int32 uint64 uint32",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &SparseToDenseMatMul{ops.Gemm{Alpha: a.Float("alpha", 1), TransA: a.Bool("transA", false),
			TransB: a.Bool("transB", false)}}
	}})

// Infer checks the inner dimensions.
func (g *SparseToDenseMatMul) Infer(c *ir.InferContext) error {
	if a, b := c.Elem(0), c.Elem(1); a != b {
		kit.SetShape(c, 0, b, nil)
		return fail.Errorf("A has element type %s and B %s, want the same", a, b)
	}
	shape, err := g.Dims(c.Shape(0), c.Shape(1), nil)
	kit.SetShape(c, 0, c.Elem(1), shape)
	return err
}

// Run adds a multiple of a row of B to the output for every stored value of A.
func (g *SparseToDenseMatMul) Run(c *ir.Call) error {
	a, ok := c.In[0].(*tensor.Sparse)
	if !ok {
		return fail.Errorf("A must be a sparse tensor, got %T", c.In[0])
	}
	switch c.Tensor(1).DType() {
	case tensor.TypeInt32, tensor.TypeUint32: // multiplication and addition wrap around in any order
		return sparseMatMul[int32](c, g, a)
	case tensor.TypeInt64, tensor.TypeUint64:
		return sparseMatMul[int64](c, g, a)
	case tensor.TypeFloat64:
		return sparseMatMul[float64](c, g, a)
	}
	return sparseMatMul[float32](c, g, a)
}

func sparseMatMul[T gemm.Number](c *ir.Call, g *SparseToDenseMatMul, a *tensor.Sparse) error {
	at, y, err := g.prepare(c, a)
	if err != nil || y.Len() == 0 {
		return err
	}
	b := c.Tensor(1)
	dst, src, values, n := matmul.Data[T](y), matmul.Data[T](b), matmul.Data[T](a.Values), y.Dim(1)
	clear(dst)
	row, col := b.Dim(1), 1
	if g.TransB {
		row, col = 1, b.Dim(1)
	}
	for i, p := range at {
		if i%64 == 0 && c.Err() != nil {
			return c.Err()
		}
		r, k := p/a.Shape[1], p%a.Shape[1]
		if g.TransA {
			r, k = k, r
		}
		v, out := values[i], dst[r*n:][:n]
		for j := range out {
			out[j] += v * src[k*row+j*col]
		}
	}
	matmul.GemmScale(dst, g.Alpha, b.DType())
	return nil
}

// prepare returns the offsets of the elements of a, and the output.
func (g *SparseToDenseMatMul) prepare(c *ir.Call, a *tensor.Sparse) ([]int, *tensor.Tensor, error) {
	b := c.Tensor(1)
	m, n, _, err := g.Shape(a.Shape, b.Shape())
	if err != nil {
		return nil, nil, err
	}
	if a.Values.DType() != b.DType() {
		return nil, nil, fail.Errorf("A has element type %s and B %s, want the same", a.Values.DType(), b.DType())
	}
	at, err := move.SparseOffsets(c, a)
	if err != nil {
		return nil, nil, err
	}
	y, err := c.Output(0, b.DType(), m, n)
	return at, y, err
}
