package ops

import (
	"fmt"
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// Inverse inverts square matrices. Elements of the inverse of a singular one are
// infinite or NaN
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.Inverse).
type Inverse struct{}

var _ = register(Def{Domain: DomainMicrosoft, Name: "Inverse", Since: []int{1}, In: "X:T", Out: "Y:T",
	Types: Types{"T": "float16 float double"},
	Build: withoutAttrs(&Inverse{})})

// Infer keeps the shape.
func (*Inverse) Infer(c *ir.InferContext) error {
	c.SetOut(0, c.Type(0))
	if s := c.Shape(0); s != nil && (len(s) < 2 || s[len(s)-2].Differs(s[len(s)-1])) {
		return fmt.Errorf("input has shape %v, want square matrices", s)
	}
	return nil
}

// Run eliminates in double with row pivots.
func (*Inverse) Run(c *ir.Call) error {
	if c.Tensor(0).DType() == tensor.TypeFloat64 {
		return invert[float64](c)
	}
	return invert[float32](c)
}

func invert[T realFloat](c *ir.Call) error {
	t := c.Tensor(0)
	s := t.Shape()
	r := len(s)
	if r < 2 || s[r-1] != s[r-2] {
		return fmt.Errorf("input has shape %v, want square matrices", s)
	}
	x, err := realIn[T](c, t)
	if err != nil {
		return err
	}
	y, err := realOut[T](c, 0, t.DType(), s...)
	if err != nil || len(x) == 0 {
		return err
	}
	n := s[r-1]
	a, err := ir.ScratchOf[float64](c, 2*n*n)
	if err != nil {
		return err
	}
	for at := 0; at < len(x); at += n * n {
		for i := range n {
			row := a[2*n*i:][:2*n]
			for j, v := range x[at+n*i:][:n] {
				row[j] = float64(v)
			}
			clear(row[n:])
			row[n+i] = 1
		}
		if err := eliminate(c, a, n); err != nil {
			return err
		}
		for i := range n {
			for j, v := range a[2*n*i+n:][:n] {
				y.data[at+n*i+j] = T(v)
			}
		}
	}
	y.store()
	return nil
}

// eliminate turns n rows [A | B] into [1 | A⁻¹·B].
func eliminate(c *ir.Call, a []float64, n int) error {
	row := func(i int) []float64 { return a[2*n*i:][:2*n] }
	for k := range n {
		if err := c.Err(); err != nil {
			return err
		}
		best := k
		for i := k + 1; i < n; i++ {
			if math.Abs(row(i)[k]) > math.Abs(row(best)[k]) {
				best = i
			}
		}
		p, q := row(k), row(best)
		if best != k {
			for j := range p {
				p[j], q[j] = q[j], p[j]
			}
		}
		d := p[k]
		for j := range p {
			p[j] /= d
		}
		for i := range n {
			if i == k {
				continue
			}
			q := row(i)
			f := q[k]
			if f == 0 {
				continue
			}
			for j := k; j < len(q); j++ {
				q[j] -= f * p[j]
			}
		}
	}
	return nil
}
