package ops

import (
	"errors"
	"fmt"

	"github.com/onward-ml/onward/internal/ir"
)

// matMulShape is how the matrices of a product in the manner of numpy.matmul
// (https://numpy.org/doc/stable/reference/generated/numpy.matmul.html) lie in
// their tensors: batches of M×K times K×N.
type matMulShape struct {
	m, k, n int
	batch   []int // broadcast leading dimensions
	out     []int // shape of the result
	aStep   []int // per batch dimension, in matrices; 0 where A repeats
	bStep   []int
}

// newMatMulShape finds the matrices of inputs with shapes a and b.
func newMatMulShape(a, b []int) (matMulShape, error) {
	var s matMulShape
	if len(a) == 0 || len(b) == 0 {
		return s, fmt.Errorf("shapes %v and %v: want rank at least 1", a, b)
	}
	row, col := len(a) == 1, len(b) == 1
	if row {
		a = []int{1, a[0]}
	}
	if col {
		b = []int{b[0], 1}
	}
	la, lb := len(a)-2, len(b)-2
	s.m, s.k, s.n = a[la], a[la+1], b[lb+1]
	if b[lb] != s.k {
		return s, fmt.Errorf("shapes %v and %v: inner dimensions are %d and %d, want equal ones", a, b, s.k, b[lb])
	}
	batch, err := broadcastShapes(a[:la], b[:lb])
	if err != nil {
		return s, err
	}
	// Matrices of A that share one B are one taller matrix.
	s.out = append([]int{}, batch...)
	if !row {
		s.out = append(s.out, s.m)
	}
	if !col {
		s.out = append(s.out, s.n)
	}
	if lb == 0 {
		s.m *= product(batch)
		batch = nil
	}
	s.batch = batch
	s.aStep, s.bStep = make([]int, len(batch)), make([]int, len(batch))
	if len(batch) > 0 {
		s.aStep, s.bStep = broadcastStrides(a[:la], batch), broadcastStrides(b[:lb], batch)
	}
	return s, nil
}

// count returns the number of products.
func (s *matMulShape) count() int { return product(s.batch) }

// at returns which matrices of A and B make the i-th product.
func (s *matMulShape) at(i int) (a, b int) {
	for d := len(s.batch) - 1; d >= 0; d-- {
		x := i % s.batch[d]
		i /= s.batch[d]
		a += x * s.aStep[d]
		b += x * s.bStep[d]
	}
	return a, b
}

// matMulDims is the shape of the result as far as it is known before running.
func matMulDims(a, b []ir.Dim) ([]ir.Dim, error) {
	if a == nil || b == nil {
		return nil, nil
	}
	if len(a) == 0 || len(b) == 0 {
		return nil, errors.New("an input is a scalar, want rank at least 1")
	}
	row, col := len(a) == 1, len(b) == 1
	if row {
		a = []ir.Dim{ir.Known(1), a[0]}
	}
	if col {
		b = []ir.Dim{b[0], ir.Known(1)}
	}
	la, lb := len(a)-2, len(b)-2
	if a[la+1].Differs(b[lb]) {
		return nil, fmt.Errorf("inner dimensions are %s and %s, want equal ones", a[la+1], b[lb])
	}
	out, err := broadcastDims(a[:la], b[:lb])
	if err != nil {
		return nil, err
	}
	if !row {
		out = append(out, a[la])
	}
	if !col {
		out = append(out, b[lb+1])
	}
	return out, nil
}

// inferMatMul sets output 0 to the product of inputs ia and ib.
func inferMatMul(c *ir.InferContext, ia, ib int, out ir.Type) error {
	d, err := matMulDims(c.Shape(ia), c.Shape(ib))
	if err != nil {
		return err
	}
	out.Shape = d
	c.SetOut(0, out)
	return nil
}
