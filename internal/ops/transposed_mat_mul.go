package ops

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/tensor"
)

// transposedMatMul is Alpha times the product of two tensors of matrices that
// may be transposed first: Trans swaps the last two dimensions, Batch moves the
// first dimension behind the batch dimensions before that. Vectors stay.
type transposedMatMul struct {
	Alpha float32
	Trans [2]bool
	Batch [2]bool
}

// transposedPerm returns which dimension of a tensor of the given rank becomes
// which.
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

func permuted[D any](s []D, perm []int) []D {
	r := make([]D, len(s))
	for i, p := range perm {
		r[i] = s[p]
	}
	return r
}

// Infer broadcasts the leading dimensions.
func (o *transposedMatMul) Infer(c *ir.InferContext) error {
	out := ir.UnrankedTensor(c.Elem(0))
	var s [2][]ir.Dim
	for i := range s {
		if d := c.Shape(i); d != nil {
			s[i] = permuted(d, transposedPerm(len(d), o.Trans[i], o.Batch[i]))
		}
	}
	var err error
	out.Shape, err = matMulDims(s[0], s[1])
	c.SetOut(0, out)
	return err
}

// Run multiplies. float16 and bfloat16 are summed as float.
func (o *transposedMatMul) Run(c *ir.Call) error {
	if c.Tensor(0).DType() == tensor.TypeFloat64 {
		return runTransposed[float64](c, o)
	}
	return runTransposed[float32](c, o)
}

func runTransposed[T realFloat](c *ir.Call, o *transposedMatMul) error {
	var (
		data   [2][]T
		shape  [2][]int
		inside [2]bool // the kernel transposes
	)
	for i := range data {
		t := c.Tensor(i)
		perm := transposedPerm(t.Rank(), o.Trans[i], o.Batch[i])
		shape[i] = permuted(t.Shape(), perm)
		inside[i] = o.Trans[i] && !o.Batch[i] && t.Rank() > 1
		var err error
		if data[i], err = realIn[T](c, t); err != nil {
			return err
		}
		if o.Batch[i] && t.Rank() > 1 {
			moved, err := ir.ScratchOf[T](c, t.Len())
			if err != nil {
				return err
			}
			width := tensor.DTypeOf[T]().Size()
			moveStrided(c, moveBuf{width: width, raw: tensor.AsBytes(moved)}, moveBuf{width: width, raw: tensor.AsBytes(data[i])},
				shape[i], strides(shape[i]), 0, permuted(strides(t.Shape()), perm), 0)
			data[i] = moved
		}
	}
	s, err := newMatMulShape(shape[0], shape[1])
	if err != nil {
		return err
	}
	y, err := realOut[T](c, 0, c.Tensor(0).DType(), s.out...)
	if err != nil || len(y.data) == 0 {
		return err
	}
	if inside[0] && len(s.batch) == 0 && len(shape[0]) > 2 {
		// One tall matrix of rows is not one of columns.
		if err := o.eachMatrix(c, &s, shape[0], func(i, m int) error {
			return matMulScaled(c, o.Alpha, &gemm.Args[T]{M: m, N: s.n, K: s.k, A: data[0][i*m*s.k:], LdA: m, TransA: true,
				B: data[1], LdB: transposedLd(inside[1], s.k, s.n), TransB: inside[1], C: y.data[i*m*s.n:], LdC: s.n})
		}); err != nil {
			return err
		}
		y.store()
		return nil
	}
	for i := range s.count() {
		ia, ib := s.at(i)
		g := &gemm.Args[T]{M: s.m, N: s.n, K: s.k, A: data[0][ia*s.m*s.k:], LdA: transposedLd(inside[0], s.m, s.k), TransA: inside[0],
			B: data[1][ib*s.k*s.n:], LdB: transposedLd(inside[1], s.k, s.n), TransB: inside[1], C: y.data[i*s.m*s.n:], LdC: s.n}
		if err := matMulScaled(c, o.Alpha, g); err != nil {
			return err
		}
	}
	y.store()
	return nil
}

// eachMatrix calls fn for the matrices of a tensor that share the other factor;
// m is their number of rows.
func (o *transposedMatMul) eachMatrix(c *ir.Call, s *matMulShape, shape []int, fn func(i, m int) error) error {
	m := shape[len(shape)-2]
	for i := range s.m / max(1, m) {
		if err := fn(i, m); err != nil {
			return err
		}
	}
	return nil
}

// transposedLd is the row length in memory of a rows×cols matrix.
func transposedLd(trans bool, rows, cols int) int {
	if trans {
		return rows
	}
	return cols
}

// matMulScaled computes alpha times one product with all threads.
func matMulScaled[T realFloat](c *ir.Call, alpha float32, g *gemm.Args[T]) error {
	if c.Generic {
		if err := matMulPlain(c, g); err != nil {
			return err
		}
	} else {
		var par gemm.Par
		if g.M*g.N*max(1, g.K) >= 1<<16 {
			par = func(n int, fn func(lo, hi int)) { c.Parallel(n, 1, fn) }
		}
		if f, ok := any(g).(*gemm.Args[float32]); ok {
			gemm.Parallel(par, cpu.Active(), f)
		} else {
			gemm.ParallelGeneric(par, g)
		}
	}
	gemmScale(g.C[:g.M*g.N], alpha)
	return c.Err()
}
