package matmul

import (
	"errors"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/kernels/quant"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// PackedBytes is a constant matrix of 8-bit integers for [quant.Compute].
type PackedBytes struct {
	level cpu.Level
	shape []int
	elem  tensor.DType
	data  *quant.Packed
}

// PackBytes packs a constant matrix of 8-bit integers. It returns nil for other values.
func PackBytes(v tensor.Value) *PackedBytes { return PackBytesTrans(v, false) }

// PackBytesTrans is PackBytes for a matrix or its transpose. shape is that of the constant.
func PackBytesTrans(v tensor.Value, trans bool) *PackedBytes {
	t, ok := v.(*tensor.Tensor)
	if !ok || t.Rank() != 2 || !kit.IsByte(t.DType()) || t.Len() == 0 {
		return nil
	}
	p := &PackedBytes{level: cpu.Active(), shape: t.Shape(), elem: t.DType()}
	k, n := t.Dim(0), t.Dim(1)
	ld := n
	if trans {
		k, n = n, k
	}
	p.data = packBytesOf(nil, p.level, t, 0, ld, trans, k, n)
	return p
}

// packBytesOf packs the k×n matrix that starts at element at of t.
func packBytesOf(par gemm.Par, level cpu.Level, t *tensor.Tensor, at, ld int, trans bool, k, n int) *quant.Packed {
	if t.DType() == tensor.TypeInt8 {
		return quant.Pack(par, level, tensor.MustData[int8](t)[at:], ld, trans, k, n)
	}
	return quant.Pack(par, level, tensor.MustData[uint8](t)[at:], ld, trans, k, n)
}

// QuantLen returns an upper bound of the size of a packed matrix in bytes.
func QuantLen(k, n int) int64 {
	return int64(gemm.Panels(n)) * quant.PanelWidth * int64(k+4) * 2
}

// zeroPoints converts zero points to int32; nil stays nil.
func zeroPoints(c *ir.Call, t *tensor.Tensor) ([]int32, error) {
	if t == nil {
		return nil, nil
	}
	z, err := ir.ScratchOf[int32](c, t.Len())
	if err != nil {
		return nil, err
	}
	if t.DType() == tensor.TypeInt8 {
		vec.I8ToI32(cpu.Active(), z, tensor.MustData[int8](t))
	} else {
		vec.U8ToI32(cpu.Active(), z, tensor.MustData[uint8](t))
	}
	return z, nil
}

// lines returns the elements of a parameter for one matrix.
func (q *QuantParam) lines(z []int32, matrix int) []int32 {
	if len(z) <= 1 {
		return z
	}
	n := q.Rows
	if q.byCol {
		n = q.Cols
	}
	return z[matrix*n%len(z):][:n]
}

// Quantized multiplies 8-bit integers, minus their zero points, with the 8-bit kernels. packed
// holds the right operand if it is constant. The result goes to y or, if out is set, to out.
func Quantized(c *ir.Call, s *Shape, a, b *tensor.Tensor, packed *PackedBytes, bshape []int, az, bz *tensor.Tensor,
	y []int32, out *quant.Requantized) error {
	ra, err := NewQuantParam("zero point of A", az, a.Shape(), false)
	if err != nil {
		return err
	}
	rb, err := NewQuantParam("zero point of B", bz, bshape, true)
	if err != nil {
		return err
	}
	za, err := zeroPoints(c, az)
	if err != nil {
		return err
	}
	zb, err := zeroPoints(c, bz)
	if err != nil || len(y) == 0 && out == nil {
		return err
	}
	if s.Batch == nil && len(za) > 1 && len(za) != s.M { // one row of zero points for all matrices of A
		if za, err = repeatInts(c, za, s.M); err != nil {
			return err
		}
	}
	level := cpu.Active()
	if packed != nil {
		level = packed.level
	}
	last, data := -1, (*quant.Packed)(nil)
	for i := range s.Count() {
		if err := c.Err(); err != nil {
			return err
		}
		ia, ib := s.At(i)
		switch {
		case packed != nil:
			data = packed.data
		case ib != last:
			if last < 0 {
				if err := c.Reserve(QuantLen(s.K, s.N)); err != nil {
					return err
				}
			}
			data, last = packBytesOf(c.Par(), level, b, ib*s.K*s.N, s.N, false, s.K, s.N), ib
		}
		g := quant.Args{M: s.M, A: a.Bytes()[ia*s.M*s.K:][:s.M*s.K], Signed: a.DType() == tensor.TypeInt8, LdA: s.K,
			AZero: za, B: data, BZero: rb.lines(zb, ib), LdC: s.N}
		if out != nil {
			rows := *out
			rows.Y = out.Y[i*s.M*s.N:][:s.M*s.N]
			g.Out = &rows
		} else {
			g.C = y[i*s.M*s.N:][:s.M*s.N]
		}
		if s.Batch != nil {
			g.AZero = ra.lines(za, ia)
		}
		multiplyBytes(c, level, &g)
	}
	return c.Err()
}

// multiplyBytes computes g with the workers of a call.
func multiplyBytes(c *ir.Call, level cpu.Level, g *quant.Args) {
	var par gemm.Par
	const width = 16 // columns that the kernels compute at least
	if g.M*max(g.B.N, width)*max(1, g.B.K) >= 1<<18 {
		par = func(n int, fn func(lo, hi int)) { c.Parallel(n, 1, fn) }
	}
	quant.Parallel(par, level, g)
}

// Multiply computes g with p as the right operand.
func (p *PackedBytes) Multiply(c *ir.Call, g *quant.Args) error {
	g.B = p.data
	multiplyBytes(c, p.level, g)
	return c.Err()
}

func repeatInts(c *ir.Call, v []int32, n int) ([]int32, error) {
	r, err := ir.ScratchOf[int32](c, n)
	for i := range r {
		r[i] = v[i%len(v)]
	}
	return r, err
}

// BytesShape returns the shape of B.
func BytesShape(b *tensor.Tensor, packed *PackedBytes) ([]int, error) {
	switch {
	case packed != nil:
		return packed.shape, nil
	case b == nil:
		return nil, errors.New("input B is missing")
	}
	return b.Shape(), nil
}

// Bytes multiplies 8-bit integers minus their zero points, which may be nil.
func Bytes(c *ir.Call, s *Shape, a, b, az, bz *tensor.Tensor, y []int32) error {
	return BytesBy(c, s, a, b, nil, az, bz, y)
}

// BytesBy is Bytes with a right operand that is packed if it is constant.
func BytesBy(c *ir.Call, s *Shape, a, b *tensor.Tensor, packed *PackedBytes, az, bz *tensor.Tensor, y []int32) error {
	if !c.Generic || packed != nil {
		shape, err := BytesShape(b, packed)
		if err != nil {
			return err
		}
		return Quantized(c, s, a, b, packed, shape, az, bz, y, nil)
	}
	ra, err := NewQuantParam("zero point of A", az, a.Shape(), false)
	if err != nil {
		return err
	}
	rb, err := NewQuantParam("zero point of B", bz, b.Shape(), true)
	if err != nil {
		return err
	}
	as, err := BytesLessParam(c, a, az, ra)
	if err != nil {
		return err
	}
	bs, err := BytesLessParam(c, b, bz, rb)
	if err != nil {
		return err
	}
	return Batches(c, s, y, as, bs)
}

// QuantParam maps elements of matrices to the elements of their scale or zero point.
type QuantParam struct {
	Rows, Cols int // of one matrix
	n          int // elements of the parameter
	byCol      bool
}

// NewQuantParam checks the number of elements of p, the parameter of a tensor with the given shape:
// one for all, one per row (or column), or one per row (or column) of each matrix.
func NewQuantParam(name string, p *tensor.Tensor, shape []int, byCol bool) (QuantParam, error) {
	q := QuantParam{Rows: 1, Cols: 1, n: 1, byCol: byCol}
	r := len(shape)
	switch {
	case r == 1 && byCol:
		q.Rows = shape[0]
	case r == 1:
		q.Cols = shape[0]
	case r > 1:
		q.Rows, q.Cols = shape[r-2], shape[r-1]
	}
	if p == nil {
		return q, nil
	}
	q.n = p.Len()
	lines := q.Rows
	if byCol {
		lines = q.Cols
	}
	all := lines
	if r > 2 {
		all *= kit.Product(shape[:r-2])
	}
	if q.n != 1 && q.n != lines && q.n != all {
		return q, fail.Errorf("%s has shape %v, which does not match shape %v", name, p.Shape(), shape)
	}
	return q, nil
}

// Line returns the index of the parameter for the first column of a row, and the step between
// columns.
func (q *QuantParam) Line(matrix, row int) (at, step int) {
	switch {
	case q.n == 1:
		return 0, 0
	case q.byCol:
		return matrix * q.Cols % q.n, 1
	}
	return (matrix*q.Rows + row) % q.n, 0
}

// BytesLessParam converts 8-bit integers to int32 and subtracts their zero point.
func BytesLessParam(c *ir.Call, t, zero *tensor.Tensor, q QuantParam) ([]int32, error) {
	if zero == nil || q.n == 1 {
		return BytesLess(c, t, zero, 1)
	}
	r, err := ir.ScratchOf[int32](c, t.Len())
	if err != nil {
		return nil, err
	}
	if t.DType() == tensor.TypeInt8 {
		subtractLines(c, r, tensor.MustData[int8](t), tensor.MustData[int8](zero), q)
	} else {
		subtractLines(c, r, tensor.MustData[uint8](t), tensor.MustData[uint8](zero), q)
	}
	return r, nil
}

func subtractLines[T int8 | uint8](c *ir.Call, dst []int32, src, zero []T, q QuantParam) {
	m := ir.Meter{C: c}
	for at := 0; at < len(src); at += q.Cols {
		m.Check(q.Cols)
		line := at / q.Cols
		z, step := q.Line(line/q.Rows, line%q.Rows)
		for i, v := range src[at:][:q.Cols] {
			dst[at+i] = int32(v) - int32(zero[z+i*step])
		}
	}
}

// BytesLess converts 8-bit integers to int32 and subtracts their zero point. The zero point has one
// element, or one for each of n equal parts of the tensor; nil means 0.
func BytesLess(c *ir.Call, t, zero *tensor.Tensor, n int) ([]int32, error) {
	r, err := ir.ScratchOf[int32](c, t.Len())
	if err != nil || len(r) == 0 {
		return r, err
	}
	if t.DType() == tensor.TypeInt8 {
		bytesLessOf[int8](c, r, t, zero, n)
	} else {
		bytesLessOf[uint8](c, r, t, zero, n)
	}
	return r, nil
}

func bytesLessOf[T int8 | uint8](c *ir.Call, dst []int32, t, zero *tensor.Tensor, n int) {
	src := tensor.MustData[T](t)
	var zs []T
	if zero != nil {
		zs = tensor.MustData[T](zero)
	}
	if len(zs) <= 1 {
		n = 1
	}
	part := len(src) / n
	for i := range n {
		var z int32
		if len(zs) > 0 {
			z = int32(zs[i])
		}
		d, s := dst[i*part:][:part], src[i*part:][:part]
		for lo, hi := range ir.Steps(c, part) {
			for k := lo; k < hi; k++ {
				d[k] = int32(s[k]) - z
			}
		}
	}
}
