package window

import (
	"math"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// InferGlobalPool keeps the first two dimensions of input 0 and sets the others to 1.
func InferGlobalPool(c *ir.InferContext) error {
	t := ir.UnrankedTensor(c.Elem(0))
	s := c.Shape(0)
	if s != nil {
		if len(s) < 2 {
			c.SetOut(0, t)
			return fail.Errorf("input has rank %d, want at least 2", len(s))
		}
		t.Shape = append([]ir.Dim{}, s...)
		for i := range t.Shape[2:] {
			t.Shape[2+i] = ir.Known(1)
		}
	}
	c.SetOut(0, t)
	return nil
}

// GlobalPool reduces each plane of input 0 to one number. Unless generic kernels are requested, it
// uses fast instead of narrow, and rows for many short planes (see [vec.SumRowsF32]), if they are
// not nil.
func GlobalPool(c *ir.Call, narrow, fast func([]float32) float32, rows func(dst, x []float32, n, first int),
	wide func([]float64) float64) error {
	if c.Tensor(0).DType() == tensor.TypeFloat64 {
		return globalPoolOf(c, wide, nil)
	}
	if c.Generic {
		return globalPoolOf(c, narrow, nil)
	}
	if fast != nil {
		narrow = fast
	}
	return globalPoolOf(c, narrow, rows)
}

func globalPoolOf[T kit.RealFloat](c *ir.Call, reduce func([]T) T, rows func(dst, x []T, n, first int)) error {
	t := c.Tensor(0)
	if t.Rank() < 2 {
		return fail.Errorf("input has shape %v, want rank at least 2", t.Shape())
	}
	shape := append([]int{}, t.Shape()...)
	for i := range shape[2:] {
		shape[2+i] = 1
	}
	x, err := kit.RealIn[T](c, t)
	if err != nil {
		return err
	}
	y, err := kit.RealOut[T](c, 0, t.DType(), shape...)
	if err != nil || len(y.Data) == 0 {
		return err
	}
	n := len(x) / len(y.Data)
	c.Parallel(len(y.Data), kit.GrainFor(n), func(lo, hi int) {
		if rows != nil && n > 0 && n <= vec.MostRowsF32 && len(y.Data) >= vec.LeastRowsF32 {
			rows(y.Data[lo:hi], x, n, lo)
			return
		}
		for i := lo; i < hi && c.Err() == nil; i++ {
			y.Data[i] = reduce(x[i*n:][:n])
		}
	})
	y.Store()
	return c.Err()
}

// MeanOf returns the mean, or NaN if v is empty.
func MeanOf[T kit.RealFloat](v []T) T {
	var s0, s1, s2, s3 float64
	i := 0
	for ; i+4 <= len(v); i += 4 {
		w := v[i : i+4 : i+4]
		s0 += float64(w[0])
		s1 += float64(w[1])
		s2 += float64(w[2])
		s3 += float64(w[3])
	}
	for ; i < len(v); i++ {
		s0 += float64(v[i])
	}
	return T((s0 + s1 + s2 + s3) / float64(len(v)))
}

// LargestOf returns the maximum, NaN if an element is NaN, or −Inf if v is empty.
func LargestOf[T kit.RealFloat](v []T) T {
	m := T(math.Inf(-1))
	for _, x := range v {
		if x > m || x != x {
			m = x
		}
		if m != m {
			break
		}
	}
	return m
}
