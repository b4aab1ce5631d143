package matmul

import (
	"errors"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
)

// Shape describes the operands of a MatMul in the manner of numpy.matmul
// (https://numpy.org/doc/stable/reference/generated/numpy.matmul.html): batches of M×K times K×N.
type Shape struct {
	M, K, N int
	Batch   []int // broadcast leading dimensions
	Out     []int // shape of the result
	AStep   []int // per batch dimension, in matrices; 0 if A is broadcast
	BStep   []int
}

// NewShape returns the geometry for inputs of shapes a and b.
func NewShape(a, b []int) (Shape, error) {
	var s Shape
	if len(a) == 0 || len(b) == 0 {
		return s, fail.Errorf("shapes %v and %v: want rank at least 1", a, b)
	}
	row, col := len(a) == 1, len(b) == 1
	if row {
		a = []int{1, a[0]}
	}
	if col {
		b = []int{b[0], 1}
	}
	la, lb := len(a)-2, len(b)-2
	s.M, s.K, s.N = a[la], a[la+1], b[lb+1]
	if b[lb] != s.K {
		return s, fail.Errorf("shapes %v and %v: inner dimensions are %d and %d, want equal ones", a, b, s.K, b[lb])
	}
	batch, err := kit.BroadcastShapes(a[:la], b[:lb])
	if err != nil {
		return s, err
	}
	// Join matrices of A that share one B into one taller matrix.
	s.Out = append([]int{}, batch...)
	if !row {
		s.Out = append(s.Out, s.M)
	}
	if !col {
		s.Out = append(s.Out, s.N)
	}
	if lb == 0 {
		s.M *= kit.Product(batch)
		batch = nil
	}
	s.Batch = batch
	s.AStep, s.BStep = make([]int, len(batch)), make([]int, len(batch))
	if len(batch) > 0 {
		s.AStep, s.BStep = kit.BroadcastStrides(a[:la], batch), kit.BroadcastStrides(b[:lb], batch)
	}
	return s, nil
}

// Count returns the number of matrices in the batch.
func (s *Shape) Count() int { return kit.Product(s.Batch) }

// At returns the indices of the matrices of A and B of batch element i.
func (s *Shape) At(i int) (a, b int) {
	for d := len(s.Batch) - 1; d >= 0; d-- {
		x := i % s.Batch[d]
		i /= s.Batch[d]
		a += x * s.AStep[d]
		b += x * s.BStep[d]
	}
	return a, b
}

// matMulDims returns the shape of the result for shapes that are partly unknown.
func matMulDims(a, b []ir.Dim) ([]ir.Dim, error) {
	if a == nil || b == nil {
		return nil, nil
	}
	if len(a) == 0 || len(b) == 0 {
		return nil, errors.New("input is a scalar, want rank at least 1")
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
		return nil, fail.Errorf("inner dimensions are %s and %s, want equal ones", a[la+1], b[lb])
	}
	out, err := kit.BroadcastDims(a[:la], b[:lb])
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

// Infer sets the type of output 0 to that of the MatMul of inputs ia and ib.
func Infer(c *ir.InferContext, ia, ib int, out ir.Type) error {
	d, err := matMulDims(c.Shape(ia), c.Shape(ib))
	if err != nil {
		return err
	}
	out.Shape = d
	c.SetOut(0, out)
	return nil
}
