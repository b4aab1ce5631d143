package reduce

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// GroupNorm normalizes groups of channels; with groups 0, every channel is a group.
func GroupNorm[T kit.RealFloat](c *ir.Call, groups int, perGroup bool, eps float32) error {
	t := c.Tensor(0)
	s := t.Shape()
	if len(s) < 2 {
		return fail.Errorf("input has shape %v, want rank at least 2", s)
	}
	if groups == 0 {
		groups = max(1, s[1])
	}
	if s[1]%groups != 0 {
		return fail.Errorf("%d channels are not divisible by %d groups", s[1], groups)
	}
	params, div := s[1], 1
	if perGroup {
		params, div = groups, max(1, s[1]/groups)
	}
	gain, err := ChannelParam[T](c, "scale", c.Tensor(1), params)
	if err != nil {
		return err
	}
	bias, err := ChannelParam[T](c, "bias", c.Tensor(2), params)
	if err != nil {
		return err
	}
	x, err := kit.RealIn[T](c, t)
	if err != nil {
		return err
	}
	y, err := kit.RealOut[T](c, 0, t.DType(), s...)
	if err != nil || len(x) == 0 {
		return err
	}
	err = NormPlanes(c, x, y.Data, s[1], groups, kit.Product(s[2:]),
		func(ch int) float64 { return float64(gain[ch/div]) }, func(ch int) float64 { return float64(bias[ch/div]) },
		float64(eps))
	if err == nil {
		y.Store()
	}
	return err
}

// moments returns the mean of x and 1/√(variance + eps), with the population variance.
func moments[T kit.RealFloat](c *ir.Call, x []T, eps float64) (mean, inv float64) {
	n := float64(len(x))
	for lo, hi := range ir.Steps(c, len(x)) {
		for _, v := range x[lo:hi] {
			mean += float64(v)
		}
	}
	mean /= n
	return mean, 1 / math.Sqrt(Variance(c, x, mean)/n+eps)
}

// Variance returns the sum of squared differences from the mean.
func Variance[T kit.RealFloat](c *ir.Call, x []T, mean float64) float64 {
	sum := 0.0
	for lo, hi := range ir.Steps(c, len(x)) {
		for _, v := range x[lo:hi] {
			d := float64(v) - mean
			sum += d * d
		}
	}
	return sum
}

// CenteredMoments returns the mean of num elements, as a float32 center and the rest, and the sum
// of their squared differences from it. each yields the elements in pieces. It writes their
// differences from the center to y, which it does not read again after the piece. It adds in
// float32; the differences are exact for elements near the center, so that their mean corrects it.
// Sums may overflow.
func CenteredMoments(l cpu.Level, num int, each func(fn func(x, y []float32))) (center float32, rest, sq float64) {
	mean := 0.0
	each(func(x, _ []float32) { mean += float64(vec.SumF32(l, x)) })
	center = float32(mean / float64(num))
	each(func(x, y []float32) {
		vec.SubScalarF32(l, y, x, center)
		rest += float64(vec.SumF32(l, y))
		sq += float64(vec.SumSquaresF32(l, y, 0))
	})
	rest /= float64(num)
	return center, rest, max(0, sq-rest*rest*float64(num))
}

// NormRows normalizes rows of cols elements: by mean and standard deviation if center is set,
// otherwise by the root mean square.
type NormRows[T kit.RealFloat] struct {
	X, Y       []T
	Cols       int
	Gain, Bias []T // one row, or as many as x has; nil for ones and zeros
	Eps        float64
	Center     bool
	Mean, Inv  []float32 // per row, or nil
}

// Compute normalizes the rows in parallel.
func (n *NormRows[T]) Compute(c *ir.Call) error {
	n.Launch(c)
	c.Sync()
	return c.Err()
}

// Launch launches the normalization of the rows.
func (n *NormRows[T]) Launch(c *ir.Call) {
	if len(n.X) > 0 {
		c.Launch(len(n.X)/n.Cols, kit.GrainFor(2*n.Cols), ir.Do(c, normSection[T]{*n, c}))
	}
}

// normSection normalizes rows.
type normSection[T kit.RealFloat] struct {
	NormRows[T]
	c *ir.Call
}

// Do implements [ir.Section].
func (n *normSection[T]) Do(lo, hi int) {
	l := cpu.Active()
	x32, fast := any(n.X).([]float32)
	y32, _ := any(n.Y).([]float32)
	gain32, _ := any(n.Gain).([]float32)
	bias32, _ := any(n.Bias).([]float32)
	fast = fast && !n.c.Generic && n.Cols <= 1<<20 // the kernels do not check the context
	if fast && n.Cols <= vec.MostNormRow && len(n.X) > n.Cols && len(gain32) <= n.Cols && len(bias32) <= n.Cols {
		lo = n.shortRows(n.c, l, y32, x32, gain32, bias32, lo, hi)
	}
	for r := lo; r < hi && n.c.Err() == nil; r++ {
		at := r * n.Cols
		if !fast {
			n.row(n.c, r)
			continue
		}
		g, b := normRow(gain32, at, n.Cols), normRow(bias32, at, n.Cols)
		var mean, inv float32
		if n.Center {
			mean, inv = vec.LayerNormF32(l, y32[at:][:n.Cols], x32[at:][:n.Cols], g, b, float32(n.Eps))
		} else {
			inv = vec.RMSNormF32(l, y32[at:][:n.Cols], x32[at:][:n.Cols], g, float32(n.Eps))
		}
		n.store(n.c, r, mean, inv)
	}
}

// row normalizes a row in float64.
func (n *NormRows[T]) row(c *ir.Call, r int) {
	at := r * n.Cols
	g, b := normRow(n.Gain, at, n.Cols), normRow(n.Bias, at, n.Cols)
	x, y := n.X[at:][:n.Cols], n.Y[at:][:n.Cols]
	var mean, inv float64
	if n.Center {
		mean, inv = moments(c, x, n.Eps)
	} else {
		inv = 1 / math.Sqrt(Variance(c, x, 0)/float64(n.Cols)+n.Eps)
	}
	n.keep(r, float32(mean), float32(inv))
	for from, to := range ir.Steps(c, len(x)) {
		for i := from; i < to; i++ {
			f := (float64(x[i]) - mean) * inv
			if g != nil {
				f *= float64(g[i])
			}
			if b != nil {
				f += float64(b[i])
			}
			y[i] = T(f)
		}
	}
}

// safeFactor reports whether squares with that factor, added in float32, have lost nothing to
// overflow or underflow.
func safeFactor(inv float32) bool { return inv > 1e-18 && inv < 1e15 }

// store keeps the statistics of a row that a kernel has normalized with sums of float32. If these
// are not safe, it normalizes the row again, unless Y has replaced X.
func (n *NormRows[T]) store(c *ir.Call, r int, mean, inv float32) {
	if safeFactor(inv) || &n.X[0] == &n.Y[0] {
		n.keep(r, mean, inv)
	} else {
		n.row(c, r)
	}
}

// shortRows normalizes rows together and returns the first that is left: hi, or lo if the level has
// no kernel.
func (n *NormRows[T]) shortRows(c *ir.Call, l cpu.Level, y, x, gain, bias []float32, lo, hi int) int {
	var stats [2 * 256]float32
	for lo < hi && c.Err() == nil {
		rows, at := min(hi-lo, len(stats)/2), lo*n.Cols
		if !vec.NormRowsF32(l, y[at:], x[at:], n.Cols, gain, bias, stats[:2*rows], n.Center, n.Eps) {
			break
		}
		for i := range rows {
			if inv := stats[2*i+1]; n.Mean != nil || n.Inv != nil || !safeFactor(inv) {
				n.store(c, lo+i, stats[2*i], inv)
			}
		}
		lo += rows
	}
	return lo
}

func (n *NormRows[T]) keep(r int, mean, inv float32) {
	if n.Mean != nil {
		n.Mean[r] = mean
	}
	if n.Inv != nil {
		n.Inv[r] = inv
	}
}

// normRow returns the row of v for the row that starts at element at. v has one row for all, or one
// per row.
func normRow[T kit.RealFloat](v []T, at, cols int) []T {
	if len(v) <= cols {
		return v
	}
	return v[at:][:cols]
}

// NormPlanes normalizes groups of planes to mean 0 and variance 1, then scales and shifts each
// plane by the gain and bias of its channel.
func NormPlanes[T kit.RealFloat](c *ir.Call, x, y []T, channels, groups, plane int, gain, bias func(ch int) float64,
	eps float64) error {
	if len(x) == 0 {
		return nil
	}
	per := channels / groups
	l := cpu.Active()
	x32, fast := any(x).([]float32)
	y32, _ := any(y).([]float32)
	fast = fast && !c.Generic
	rows := NormRows[T]{X: x, Y: y, Cols: per * plane, Eps: float64(float32(eps)), Center: true}
	c.Parallel(len(x)/(per*plane), kit.GrainFor(2*per*plane), func(lo, hi int) {
		short := lo
		if fast && rows.Cols <= vec.MostNormRow {
			short = rows.shortRows(c, l, y32, x32, nil, nil, lo, hi)
		}
		for g := lo; g < hi && c.Err() == nil; g++ {
			at := g * per * plane
			var mean, inv float64
			if g < short { // done
			} else if fast {
				m, i := vec.LayerNormF32(l, y32[at:][:per*plane], x32[at:][:per*plane], nil, nil, float32(eps))
				rows.store(c, g, m, i)
			} else {
				mean, inv = moments(c, x[at:][:per*plane], eps)
			}
			for k := range per {
				ch := g%groups*per + k
				a, b := gain(ch), bias(ch)
				p := at + k*plane
				if fast {
					vec.ScaleShiftF32(l, y32[p:][:plane], y32[p:][:plane], float32(a), float32(b))
					continue
				}
				for from, to := range ir.Steps(c, plane) {
					for i := p + from; i < p+to; i++ {
						y[i] = T((float64(x[i])-mean)*inv*a + b)
					}
				}
			}
		}
	})
	return c.Err()
}

// ChannelParam returns the elements of t, which must be n.
func ChannelParam[T kit.RealFloat](c *ir.Call, name string, t *tensor.Tensor, n int) ([]T, error) {
	if t.Len() != n {
		return nil, fail.Errorf("%s has shape %v, want %d elements", name, t.Shape(), n)
	}
	return kit.RealIn[T](c, t)
}

// ReadEpsilon reads attribute epsilon.
func ReadEpsilon(a *kit.Attrs) float32 { return a.Float("epsilon", 1e-5) }

// ReadStash reads the type in which normalizations compute their first stage and return statistics.
func ReadStash(a *kit.Attrs) tensor.DType {
	d := a.DType("stash_type", tensor.TypeFloat32)
	switch d {
	case tensor.TypeFloat32, tensor.TypeFloat16, tensor.TypeBFloat16, tensor.TypeFloat64:
	default:
		a.Errorf("attribute stash_type is %s, want a floating-point type", d)
	}
	return d
}

// NormParam returns a gain or bias that broadcasts to shape, for rows of the dimensions from axis
// on: one row if it is the same for every row.
func NormParam[T kit.RealFloat](c *ir.Call, name string, t *tensor.Tensor, shape []int, axis int) ([]T, error) {
	if t == nil {
		return nil, nil
	}
	s := t.Shape()
	off := len(shape) - len(s)
	for i, d := range s {
		if off < 0 || d != 1 && d != shape[off+i] {
			return nil, fail.Errorf("%s with shape %v cannot be broadcast to %v", name, s, shape)
		}
	}
	v, err := kit.RealIn[T](c, t)
	if err != nil {
		return nil, err
	}
	lead := 0 // dimensions of shape that are omitted
	if kit.Product(s[:max(0, axis-off)]) == 1 {
		lead = axis
	}
	if len(v) == kit.Product(shape[lead:]) {
		return v, nil
	}
	st := kit.BroadcastStrides(s, shape)[lead:]
	shape = shape[lead:]
	r, err := ir.ScratchOf[T](c, kit.Product(shape))
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
		kit.NextIndex(index, shape)
	}
	return r, nil
}
