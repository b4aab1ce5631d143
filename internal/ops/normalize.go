package ops

import (
	"fmt"
	"math"
	"slices"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/tensor"
)

// moments returns the mean and 1/√(variance + eps) of x, the variance being that
// of a whole population.
func moments[T realFloat](x []T, eps float64) (mean, inv float64) {
	n := float64(len(x))
	for _, v := range x {
		mean += float64(v)
	}
	mean /= n
	return mean, 1 / math.Sqrt(variance(x, mean)/n+eps)
}

// variance returns the sum of the squared distances from the mean.
func variance[T realFloat](x []T, mean float64) float64 {
	sum := 0.0
	for _, v := range x {
		d := float64(v) - mean
		sum += d * d
	}
	return sum
}

// normRows normalizes rows of cols elements: with center by mean and standard
// deviation, else by the root of the mean square.
type normRows[T realFloat] struct {
	x, y       []T
	cols       int
	gain, bias []T // one row or as many as x has; nil for ones and zeros
	eps        float64
	center     bool
	mean, inv  []float32 // per row, or nil
}

func (n *normRows[T]) run(c *ir.Call) error {
	if len(n.x) == 0 {
		return nil
	}
	l := cpu.Active()
	x32, fast := any(n.x).([]float32)
	y32, _ := any(n.y).([]float32)
	gain32, _ := any(n.gain).([]float32)
	bias32, _ := any(n.bias).([]float32)
	fast = fast && !c.Generic
	c.Parallel(len(n.x)/n.cols, grainFor(2*n.cols), func(lo, hi int) {
		for r := lo; r < hi && c.Err() == nil; r++ {
			at := r * n.cols
			if fast {
				g, b := normRow(gain32, at, n.cols), normRow(bias32, at, n.cols)
				var mean, inv float32
				if n.center {
					mean, inv = vec.LayerNormF32(l, y32[at:][:n.cols], x32[at:][:n.cols], g, b, float32(n.eps))
				} else {
					inv = vec.RMSNormF32(l, y32[at:][:n.cols], x32[at:][:n.cols], g, float32(n.eps))
				}
				n.keep(r, mean, inv)
				continue
			}
			g, b := normRow(n.gain, at, n.cols), normRow(n.bias, at, n.cols)
			x, y := n.x[at:][:n.cols], n.y[at:][:n.cols]
			var mean, inv float64
			if n.center {
				mean, inv = moments(x, n.eps)
			} else {
				inv = 1 / math.Sqrt(variance(x, 0)/float64(n.cols)+n.eps)
			}
			n.keep(r, float32(mean), float32(inv))
			for i, v := range x {
				f := (float64(v) - mean) * inv
				if g != nil {
					f *= float64(g[i])
				}
				if b != nil {
					f += float64(b[i])
				}
				y[i] = T(f)
			}
		}
	})
	return c.Err()
}

func (n *normRows[T]) keep(r int, mean, inv float32) {
	if n.mean != nil {
		n.mean[r] = mean
	}
	if n.inv != nil {
		n.inv[r] = inv
	}
}

// normRow returns the row of v, which has one for all or one for each, that goes
// with the row at element at.
func normRow[T realFloat](v []T, at, cols int) []T {
	if len(v) <= cols {
		return v
	}
	return v[at:][:cols]
}

// normPlanes normalizes groups of planes to mean 0 and variance 1, then scales
// and shifts every plane by its channel's gain and bias.
func normPlanes[T realFloat](c *ir.Call, x, y []T, channels, groups, plane int, gain, bias func(ch int) float64, eps float64) error {
	if len(x) == 0 {
		return nil
	}
	per := channels / groups
	l := cpu.Active()
	x32, fast := any(x).([]float32)
	y32, _ := any(y).([]float32)
	fast = fast && !c.Generic
	c.Parallel(len(x)/(per*plane), grainFor(2*per*plane), func(lo, hi int) {
		for g := lo; g < hi && c.Err() == nil; g++ {
			at := g * per * plane
			var mean, inv float64
			if fast {
				m, i := vec.MeanInvStdF32(l, x32[at:][:per*plane], float32(eps))
				mean, inv = float64(m), float64(i)
				vec.NormalizeF32(l, y32[at:][:per*plane], x32[at:][:per*plane], m, i, nil, nil)
			} else {
				mean, inv = moments(x[at:][:per*plane], eps)
			}
			for k := range per {
				ch := g%groups*per + k
				a, b := gain(ch), bias(ch)
				p := at + k*plane
				if fast {
					vec.ScaleShiftF32(l, y32[p:][:plane], y32[p:][:plane], float32(a), float32(b))
					continue
				}
				for i, v := range x[p:][:plane] {
					y[p+i] = T((float64(v)-mean)*inv*a + b)
				}
			}
		}
	})
	return c.Err()
}

// channelParam checks that t has n elements and reads them.
func channelParam[T realFloat](c *ir.Call, name string, t *tensor.Tensor, n int) ([]T, error) {
	if t.Len() != n {
		return nil, fmt.Errorf("%s has shape %v, want %d elements", name, t.Shape(), n)
	}
	return realIn[T](c, t)
}

// readEpsilon reads attribute epsilon.
func readEpsilon(a *Attrs) float32 { return a.Float("epsilon", 1e-5) }

// readStash reads the type in which normalizations compute their first stage and
// give statistics.
func readStash(a *Attrs) tensor.DType {
	d := a.DType("stash_type", tensor.TypeFloat32)
	switch d {
	case tensor.TypeFloat32, tensor.TypeFloat16, tensor.TypeBFloat16, tensor.TypeFloat64:
	default:
		a.Errorf("attribute stash_type is %s, want a floating-point type", d)
	}
	return d
}

// normParam reads a gain or bias that broadcasts to shape, for rows of the
// dimensions from axis on: one row where it is the same for every row.
func normParam[T realFloat](c *ir.Call, name string, t *tensor.Tensor, shape []int, axis int) ([]T, error) {
	if t == nil {
		return nil, nil
	}
	s := t.Shape()
	if out, err := broadcastShapes(s, shape); err != nil || !slices.Equal(out, shape) {
		return nil, fmt.Errorf("%s with shape %v cannot be broadcast to %v", name, s, shape)
	}
	v, err := realIn[T](c, t)
	if err != nil {
		return nil, err
	}
	st := broadcastStrides(s, shape)
	if lead := max(0, axis-(len(shape)-len(s))); product(s[:lead]) == 1 {
		shape, st = shape[axis:], st[axis:]
	}
	if len(v) == product(shape) {
		return v, nil
	}
	r, err := ir.ScratchOf[T](c, product(shape))
	if err != nil {
		return nil, err
	}
	index := make([]int, len(shape))
	for i := range r {
		at := 0
		for d, k := range index {
			at += k * st[d]
		}
		r[i] = v[at]
		windowStep(index, shape)
	}
	return r, nil
}
