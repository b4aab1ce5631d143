package ops

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/kernels/quant"
	"github.com/onward-ml/onward/tensor"
)

// packedBytes is a constant matrix of 8-bit integers for [quant.Compute].
type packedBytes struct {
	level cpu.Level
	shape []int
	elem  tensor.DType
	data  *quant.Packed
}

// packBytes packs a constant that is one matrix of 8-bit integers; nil for others.
func packBytes(v tensor.Value) *packedBytes { return packBytesTrans(v, false) }

// packBytesTrans is packBytes of a matrix or of its transpose; shape is that of
// the constant.
func packBytesTrans(v tensor.Value, trans bool) *packedBytes {
	t, ok := v.(*tensor.Tensor)
	if !ok || t.Rank() != 2 || !isByte(t.DType()) || t.Len() == 0 {
		return nil
	}
	p := &packedBytes{level: cpu.Active(), shape: t.Shape(), elem: t.DType()}
	k, n := t.Dim(0), t.Dim(1)
	ld := n
	if trans {
		k, n = n, k
	}
	p.data = packBytesOf(p.level, t, 0, ld, trans, k, n)
	return p
}

// packBytesOf packs the k×n matrix that begins at an element of t.
func packBytesOf(level cpu.Level, t *tensor.Tensor, at, ld int, trans bool, k, n int) *quant.Packed {
	if t.DType() == tensor.TypeInt8 {
		return quant.Pack(level, tensor.Of[int8](t)[at:], ld, trans, k, n)
	}
	return quant.Pack(level, tensor.Of[uint8](t)[at:], ld, trans, k, n)
}

// quantLen returns the bytes that a packed matrix takes at most.
func quantLen(k, n int) int64 {
	return int64(gemm.Panels(n)) * quant.PanelWidth * int64(k+4) * 2
}

// zeroPoints widens zero points; nil for none.
func zeroPoints(c *ir.Call, t *tensor.Tensor) ([]int32, error) {
	if t == nil {
		return nil, nil
	}
	return bytesLess(c, t, nil, 1)
}

// lines cuts the part of a parameter's elements out that goes with one matrix.
func (q *quantParam) lines(z []int32, matrix int) []int32 {
	if len(z) <= 1 {
		return z
	}
	n := q.rows
	if q.byCol {
		n = q.cols
	}
	return z[matrix*n%len(z):][:n]
}

// matMulQuant multiplies 8-bit integers less their zero points by the kernels for
// them. packed is the right side when it is constant.
func matMulQuant(c *ir.Call, s *matMulShape, a, b *tensor.Tensor, packed *packedBytes, bshape []int, az, bz *tensor.Tensor, y []int32) error {
	ra, err := newQuantParam("zero point of A", az, a.Shape(), false)
	if err != nil {
		return err
	}
	rb, err := newQuantParam("zero point of B", bz, bshape, true)
	if err != nil {
		return err
	}
	za, err := zeroPoints(c, az)
	if err != nil {
		return err
	}
	zb, err := zeroPoints(c, bz)
	if err != nil || len(y) == 0 {
		return err
	}
	if s.batch == nil && len(za) > 1 && len(za) != s.m { // one row of zero points for all matrices of A
		if za, err = repeatInts(c, za, s.m); err != nil {
			return err
		}
	}
	if a.DType() == tensor.TypeInt8 {
		return matMulQuantOf(c, s, tensor.Of[int8](a), b, packed, ra, rb, za, zb, y)
	}
	return matMulQuantOf(c, s, tensor.Of[uint8](a), b, packed, ra, rb, za, zb, y)
}

func repeatInts(c *ir.Call, v []int32, n int) ([]int32, error) {
	r, err := ir.ScratchOf[int32](c, n)
	for i := range r {
		r[i] = v[i%len(v)]
	}
	return r, err
}

func matMulQuantOf[T int8 | uint8](c *ir.Call, s *matMulShape, a []T, b *tensor.Tensor, packed *packedBytes, ra, rb quantParam, za, zb []int32, y []int32) error {
	level := cpu.Active()
	if packed != nil {
		level = packed.level
	}
	last, data := -1, (*quant.Packed)(nil)
	for i := range s.count() {
		if err := c.Err(); err != nil {
			return err
		}
		ia, ib := s.at(i)
		switch {
		case packed != nil:
			data = packed.data
		case ib != last:
			if last < 0 {
				if err := c.Reserve(quantLen(s.k, s.n)); err != nil {
					return err
				}
			}
			data, last = packBytesOf(level, b, ib*s.k*s.n, s.n, false, s.k, s.n), ib
		}
		g := quant.Args[T]{M: s.m, A: a[ia*s.m*s.k:][:s.m*s.k], LdA: s.k, AZero: za, B: data, BZero: rb.lines(zb, ib),
			C: y[i*s.m*s.n:][:s.m*s.n], LdC: s.n}
		if s.batch != nil {
			g.AZero = ra.lines(za, ia)
		}
		var par gemm.Par
		if s.m*s.n*max(1, s.k) >= 1<<18 {
			par = func(n int, fn func(lo, hi int)) { c.Parallel(n, 1, fn) }
		}
		quant.Parallel(par, level, &g)
	}
	return c.Err()
}
