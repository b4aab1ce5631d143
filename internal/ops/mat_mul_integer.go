package ops

import (
	"errors"
	"fmt"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// MatMulInteger multiplies matrices of 8-bit integers, less their zero points,
// to int32. A's zero point may differ by row and B's by column.
type MatMulInteger struct{}

var _ = register(Def{Name: "MatMulInteger", Since: []int{10}, In: "A:T1, B:T2, a_zero_point:T1?, b_zero_point:T2?", Out: "Y:T3",
	Types: Types{"T1": "int8 uint8", "T2": "int8 uint8", "T3": "int32"},
	Build: simple(func(a *Attrs, opset int) Operator { return &MatMulInteger{} })})

// Infer broadcasts the leading dimensions.
func (*MatMulInteger) Infer(c *ir.InferContext) error {
	return inferMatMul(c, 0, 1, ir.UnrankedTensor(tensor.TypeInt32))
}

// Run sums as int32.
func (*MatMulInteger) Run(c *ir.Call) error { return matMulInteger(c, nil) }

// matMulInteger multiplies; packed is B when it is constant.
func matMulInteger(c *ir.Call, packed *packedBytes) error {
	a, b := c.Tensor(0), c.Tensor(1)
	shape, err := bytesShape(b, packed)
	if err != nil {
		return err
	}
	s, err := newMatMulShape(a.Shape(), shape)
	if err != nil {
		return err
	}
	y, err := c.Output(0, tensor.TypeInt32, s.out...)
	if err != nil {
		return err
	}
	return matMulBytesBy(c, &s, a, b, packed, c.Tensor(2), c.Tensor(3), tensor.Of[int32](y))
}

// bytesShape returns the shape of the right side of a product.
func bytesShape(b *tensor.Tensor, packed *packedBytes) ([]int, error) {
	switch {
	case packed != nil:
		return packed.shape, nil
	case b == nil:
		return nil, errors.New("the right side is missing")
	}
	return b.Shape(), nil
}

// matMulIntegerPacked is a MatMulInteger whose B is one constant matrix.
type matMulIntegerPacked struct {
	MatMulInteger
	b *packedBytes
}

// Prepare packs a constant B.
func (m *MatMulInteger) Prepare(in []tensor.Value, types []ir.Type) (ir.Operator, []int, error) {
	if p := packBytes(in[1]); p != nil {
		return &matMulIntegerPacked{b: p}, []int{1}, nil
	}
	return nil, nil, nil
}

// Run multiplies by the packed matrix.
func (m *matMulIntegerPacked) Run(c *ir.Call) error { return matMulInteger(c, m.b) }

// matMulBytes multiplies 8-bit integers less their zero points, which may be nil.
func matMulBytes(c *ir.Call, s *matMulShape, a, b, az, bz *tensor.Tensor, y []int32) error {
	return matMulBytesBy(c, s, a, b, nil, az, bz, y)
}

// matMulBytesBy is matMulBytes by a right side that is packed when it is constant.
func matMulBytesBy(c *ir.Call, s *matMulShape, a, b *tensor.Tensor, packed *packedBytes, az, bz *tensor.Tensor, y []int32) error {
	if !c.Generic || packed != nil {
		shape, err := bytesShape(b, packed)
		if err != nil {
			return err
		}
		return matMulQuant(c, s, a, b, packed, shape, az, bz, y)
	}
	ra, err := newQuantParam("zero point of A", az, a.Shape(), false)
	if err != nil {
		return err
	}
	rb, err := newQuantParam("zero point of B", bz, b.Shape(), true)
	if err != nil {
		return err
	}
	as, err := bytesLessParam(c, a, az, ra)
	if err != nil {
		return err
	}
	bs, err := bytesLessParam(c, b, bz, rb)
	if err != nil {
		return err
	}
	return matMulBatches(c, s, y, as, bs)
}

// quantParam says which element of a scale or zero point holds for an element of
// the matrices that it quantizes.
type quantParam struct {
	rows, cols int // of one matrix
	n          int // elements of the parameter
	byCol      bool
}

// newQuantParam checks the number of elements of p, the parameter of a tensor
// with the given shape: one for all, one per row (or column) or one per row (or
// column) of every matrix.
func newQuantParam(name string, p *tensor.Tensor, shape []int, byCol bool) (quantParam, error) {
	q := quantParam{rows: 1, cols: 1, n: 1, byCol: byCol}
	r := len(shape)
	switch {
	case r == 1 && byCol:
		q.rows = shape[0]
	case r == 1:
		q.cols = shape[0]
	case r > 1:
		q.rows, q.cols = shape[r-2], shape[r-1]
	}
	if p == nil {
		return q, nil
	}
	q.n = p.Len()
	lines := q.rows
	if byCol {
		lines = q.cols
	}
	all := lines
	if r > 2 {
		all *= product(shape[:r-2])
	}
	if q.n != 1 && q.n != lines && q.n != all {
		return q, fmt.Errorf("%s has shape %v, which does not fit shape %v", name, p.Shape(), shape)
	}
	return q, nil
}

// line returns the first index of the parameter for a row of a matrix and the
// step from one column to the next.
func (q *quantParam) line(matrix, row int) (at, step int) {
	switch {
	case q.n == 1:
		return 0, 0
	case q.byCol:
		return matrix * q.cols % q.n, 1
	}
	return (matrix*q.rows + row) % q.n, 0
}

// bytesLessParam widens a tensor of 8-bit integers and subtracts its zero point.
func bytesLessParam(c *ir.Call, t, zero *tensor.Tensor, q quantParam) ([]int32, error) {
	if zero == nil || q.n == 1 {
		return bytesLess(c, t, zero, 1)
	}
	r, err := ir.ScratchOf[int32](c, t.Len())
	if err != nil {
		return nil, err
	}
	if t.DType() == tensor.TypeInt8 {
		subtractLines(r, tensor.Of[int8](t), tensor.Of[int8](zero), q)
	} else {
		subtractLines(r, tensor.Of[uint8](t), tensor.Of[uint8](zero), q)
	}
	return r, nil
}

func subtractLines[T int8 | uint8](dst []int32, src, zero []T, q quantParam) {
	for at := 0; at < len(src); at += q.cols {
		line := at / q.cols
		z, step := q.line(line/q.rows, line%q.rows)
		for i, v := range src[at:][:q.cols] {
			dst[at+i] = int32(v) - int32(zero[z+i*step])
		}
	}
}
