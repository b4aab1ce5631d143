package ops

import (
	"fmt"

	"github.com/onward-ml/onward/internal/ir"
)

// inferPool sets outputs of the shape that w gives to input 0, whose rank is at
// least 3.
func inferPool(c *ir.InferContext, w *Window, outs ...ir.Type) error {
	var err error
	var shape []ir.Dim
	if in := c.Shape(0); in != nil {
		if len(in) < 3 {
			return fmt.Errorf("input has rank %d, want at least 3", len(in))
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

// poolGeom resolves the window of a pooling for an input of the given shape and
// returns the output's shape too.
func poolGeom(w *Window, in []int) (windowGeom, []int, error) {
	if len(in) < 3 {
		return windowGeom{}, nil, fmt.Errorf("input has shape %v, want rank at least 3", in)
	}
	g, err := w.resolve(in[2:], w.Kernel)
	if err != nil {
		return g, nil, err
	}
	return g, append(append([]int{}, in[:2]...), g.out...), nil
}

// poolPlanes runs fn over all planes of a pooling. Inputs have no element where
// they have no plane.
func poolPlanes(c *ir.Call, g *windowGeom, planes int, fn func(m *meter, plane int) bool) error {
	c.Parallel(planes, grainFor(product(g.out)*min(1<<20, g.taps())), func(lo, hi int) {
		m := &meter{c: c}
		for p := lo; p < hi && m.spend(0); p++ {
			if !fn(m, p) {
				return
			}
		}
	})
	return c.Err()
}

// poolPlain visits a plane output by output and passes on the elements of the
// input that each window covers, in row-major order.
func poolPlain[T any](g *windowGeom, m *meter, x, vals []T, at func(out int, vals []T) bool) bool {
	n := len(g.in)
	pos, tap, first, end := make([]int, n), make([]int, n), make([]int, n), make([]int, n)
	for o := range product(g.out) {
		vals = vals[:0]
		for some := g.firstTap(pos, tap, first, end); some; some = nextTap(tap, first, end) {
			in := 0
			for d := range n {
				in = in*g.in[d] + pos[d]*g.stride[d] - g.before[d] + tap[d]*g.dilation[d]
			}
			vals = append(vals, x[in])
			if !m.spend(n) {
				return false
			}
		}
		if !at(o, vals) {
			return false
		}
		windowStep(pos, g.out)
	}
	return true
}
