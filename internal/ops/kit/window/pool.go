package window

import (
	"math"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
)

// ReadNorm reads the order p of a norm: a float in opset 1, an int since opset 2.
func ReadNorm(a *kit.Attrs, opset int) float64 {
	p := 2.0
	if opset < 2 {
		p = float64(a.Float("p", 2))
	} else {
		p = float64(a.Int("p", 2))
	}
	if !(p > 0) {
		a.Errorf("attribute p is %g, want a positive number", p)
	}
	return p
}

// NormOf returns the p-norm of v.
func NormOf[T kit.RealFloat](v []T, p float64) float64 {
	sum := 0.0
	switch p {
	case 1:
		for _, x := range v {
			sum += math.Abs(float64(x))
		}
		return sum
	case 2:
		for _, x := range v {
			sum += float64(x) * float64(x)
		}
		return math.Sqrt(sum)
	}
	for _, x := range v {
		sum += math.Pow(math.Abs(float64(x)), p)
	}
	return math.Pow(sum, 1/p)
}

// InferPool infers outputs of the shape that w gives for input 0, whose rank must be at least 3.
func InferPool(c *ir.InferContext, w *Window, outs ...ir.Type) error {
	var err error
	var shape []ir.Dim
	if in := c.Shape(0); in != nil {
		if len(in) < 3 {
			return fail.Errorf("input has rank %d, want at least 3", len(in))
		}
		var sp []ir.Dim
		if sp, err = w.outDims(in[2:], ir.Dims(w.Kernel)); err == nil {
			shape = append(append([]ir.Dim{}, in[:2]...), sp...)
		}
	}
	for i, t := range outs {
		t.Shape = shape
		c.SetOut(i, t)
	}
	return err
}

// PoolGeom returns the geometry of a pooling for an input of the given shape, and the shape of the
// output.
func PoolGeom(w *Window, in []int) (Geometry, []int, error) {
	if len(in) < 3 {
		return Geometry{}, nil, fail.Errorf("input has shape %v, want rank at least 3", in)
	}
	g, err := w.Resolve(in[2:], w.Kernel)
	if err != nil {
		return g, nil, err
	}
	return g, append(append([]int{}, in[:2]...), g.Out...), nil
}

// PoolPlanes calls fn for all planes of a pooling. An input without planes has no elements.
func PoolPlanes(c *ir.Call, g *Geometry, planes int, fn func(m *ir.Meter, plane int) bool) error {
	c.Parallel(planes, kit.GrainFor(kit.Product(g.Out)*min(1<<20, g.Taps())), func(lo, hi int) {
		m := &ir.Meter{C: c}
		for p := lo; p < hi && m.Spend(0); p++ {
			if !fn(m, p) {
				return
			}
		}
	})
	return c.Err()
}

// PoolPlain calls a function, for every output of a plane, with the elements of its window in
// row-major order.
func PoolPlain[T any](g *Geometry, m *ir.Meter, x, vals []T, at func(out int, vals []T) bool) bool {
	n := len(g.In)
	pos, tap, first, end := make([]int, n), make([]int, n), make([]int, n), make([]int, n)
	for o := range kit.Product(g.Out) {
		vals = vals[:0]
		for some := g.firstTap(pos, tap, first, end); some; some = nextTap(tap, first, end) {
			in := 0
			for d := range n {
				in = in*g.In[d] + pos[d]*g.Stride[d] - g.Before[d] + tap[d]*g.Dilation[d]
			}
			vals = append(vals, x[in])
			if !m.Spend(n) {
				return false
			}
		}
		if !at(o, vals) {
			return false
		}
		kit.NextIndex(pos, g.Out)
	}
	return true
}
