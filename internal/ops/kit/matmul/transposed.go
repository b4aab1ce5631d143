package matmul

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/move"
	"github.com/onward-ml/onward/tensor"
)

// TransposedMatMul returns Alpha times the MatMul of two tensors that may be transposed first:
// Trans swaps the last two dimensions; before that, Batch moves the first dimension after the batch
// dimensions. Vectors are not transposed.
type TransposedMatMul struct {
	Alpha float32
	Trans [2]bool
	Batch [2]bool
}

// transposedPerm returns the permutation for a tensor of the given rank.
func transposedPerm(rank int, trans, batch bool) []int {
	p := make([]int, rank)
	for i := range p {
		p[i] = i
	}
	if rank < 2 {
		return p
	}
	if batch {
		for i := range rank - 2 {
			p[i] = i + 1
		}
		p[rank-2] = 0
	}
	if trans {
		p[rank-2], p[rank-1] = p[rank-1], p[rank-2]
	}
	return p
}

// Permuted returns the elements of s in the order perm.
func Permuted[D any](s []D, perm []int) []D {
	r := make([]D, len(s))
	for i, p := range perm {
		r[i] = s[p]
	}
	return r
}

// Infer broadcasts the leading dimensions.
func (o *TransposedMatMul) Infer(c *ir.InferContext) error {
	out := ir.UnrankedTensor(c.Elem(0))
	var s [2][]ir.Dim
	for i := range s {
		if d := c.Shape(i); d != nil {
			s[i] = Permuted(d, transposedPerm(len(d), o.Trans[i], o.Batch[i]))
		}
	}
	var err error
	out.Shape, err = matMulDims(s[0], s[1])
	c.SetOut(0, out)
	return err
}

// Run multiplies. float16 and bfloat16 are summed in float32.
func (o *TransposedMatMul) Run(c *ir.Call) error {
	if c.Tensor(0).DType() == tensor.TypeFloat64 {
		return runTransposed[float64](c, o)
	}
	return runTransposed[float32](c, o)
}

func runTransposed[T kit.RealFloat](c *ir.Call, o *TransposedMatMul) error {
	var (
		data   [2][]T
		shape  [2][]int
		inside [2]bool // the kernel transposes
	)
	for i := range data {
		t := c.Tensor(i)
		perm := transposedPerm(t.Rank(), o.Trans[i], o.Batch[i])
		shape[i] = Permuted(t.Shape(), perm)
		inside[i] = o.Trans[i] && !o.Batch[i] && t.Rank() > 1
		var err error
		if data[i], err = kit.RealIn[T](c, t); err != nil {
			return err
		}
		if o.Batch[i] && t.Rank() > 1 {
			moved, err := ir.ScratchOf[T](c, t.Len())
			if err != nil {
				return err
			}
			width := tensor.DTypeOf[T]().Size()
			move.Strided(c, move.Buf{Width: width, Raw: memory.AsBytes(moved)},
				move.Buf{Width: width, Raw: memory.AsBytes(data[i])},
				shape[i], kit.Strides(shape[i]), 0, Permuted(kit.Strides(t.Shape()), perm), 0)
			data[i] = moved
		}
	}
	s, err := NewShape(shape[0], shape[1])
	if err != nil {
		return err
	}
	y, err := kit.RealOut[T](c, 0, c.Tensor(0).DType(), s.Out...)
	if err != nil || len(y.Data) == 0 {
		return err
	}
	count, m, at := s.Count(), s.M, s.At
	if inside[0] && len(s.Batch) == 0 && len(shape[0]) > 2 {
		// Matrices can be joined into one taller matrix only if they are stored by rows.
		m = shape[0][len(shape[0])-2]
		count, at = s.M/m, func(i int) (int, int) { return i, 0 }
	}
	err = eachProduct(c, count, o.Alpha, func(i int) gemm.Args[T] {
		ia, ib := at(i)
		return gemm.Args[T]{M: m, N: s.N, K: s.K, A: data[0][ia*m*s.K:], LdA: transposedLd(inside[0], m, s.K),
			TransA: inside[0],
			B:      data[1][ib*s.K*s.N:], LdB: transposedLd(inside[1], s.K, s.N), TransB: inside[1],
			C: y.Data[i*m*s.N:], LdC: s.N}
	})
	if err != nil {
		return err
	}
	y.Store()
	return nil
}

// transposedLd returns the distance between rows in memory of a rows×cols matrix.
func transposedLd(trans bool, rows, cols int) int {
	if trans {
		return rows
	}
	return cols
}
