package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
)

// resizeAxis describes the resizing of one axis: every output is a weighted sum of n inputs.
type resizeAxis struct {
	Axis, In, Out int
	N             int
	Index         []int     // out·n inputs
	Weight        []float64 // out·n weights; nil for nearest, which has n = 1
	Outside       []bool    // outputs that get the extrapolation value; nil for none
}

// resizeScale is the factor of an axis and its output size, which is the input size times the
// factor except for rounding.
type resizeScale struct {
	Scale      float64
	Out        int
	Start, End float64 // region of interest, in lengths of the axis less 1
}

// keeps reports whether an axis of the given size does not change.
func (s *resizeScale) keeps(in int) bool { return math.Abs(s.Scale-1) <= 1e-9 && s.Out == in }

// resizeNearest rounds a coordinate of an axis that grows by scale.
func resizeNearest(x float64, mode string, scale float64) int {
	if mode == "outward" {
		x, mode = float64(float32(x)), "floor" // a quotient of floats
		if scale < 1 {
			mode = "ceil"
		}
	}
	switch mode {
	case "round_prefer_ceil":
		return int(math.Floor(x + 0.5))
	case "floor":
		return int(math.Floor(x))
	case "ceil":
		return int(math.Ceil(x))
	}
	return int(math.Ceil(x - 0.5))
}

// resizeLinear is the kernel of linear interpolation.
func resizeLinear(x float64) float64 { return max(0, 1-math.Abs(x)) }

// resizeReal resizes src, of the given shape, along one axis to dst.
func resizeReal[T kit.RealFloat](c *ir.Call, dst, src []T, shape []int, p *resizeAxis, outside T) error {
	inner := kit.Product(shape[p.Axis+1:])
	outer := len(src) / (p.In * inner)
	weight := make([]T, len(p.Weight))
	for i, w := range p.Weight {
		weight[i] = T(w)
	}
	if inner == 1 {
		return resizeInner(c, dst, src, weight, outer, p, outside)
	}
	scale, axpy := scaleRow[T], axpyRowOf[T]
	_, single := any(dst).([]float32)
	if single && inner >= kit.ShortRow {
		scale = func(dst, x []T, f T) {
			vec.MulScalarF32(cpu.Active(), any(dst).([]float32), any(x).([]float32), float32(f))
		}
		axpy = func(dst, x []T, f T) {
			vec.AxpyF32(cpu.Active(), any(dst).([]float32), any(x).([]float32), float32(f))
		}
	}
	c.Parallel(outer*p.Out, kit.GrainFor(inner*p.N), func(lo, hi int) {
		m := &ir.Meter{C: c}
		for r := lo; r < hi; r++ {
			o := r % p.Out
			from, to := src[r/p.Out*p.In*inner:], dst[r*inner:][:inner]
			if p.Outside != nil && p.Outside[o] {
				for i := range to {
					to[i] = outside
				}
				continue
			}
			w, index := weight[o*p.N:][:p.N], p.Index[o*p.N:][:p.N]
			if p.N == 2 && !single {
				sumRows(to, from[index[0]*inner:], from[index[1]*inner:], w[0], w[1])
				index = nil
			}
			for k, i := range index {
				if row := from[i*inner:][:inner]; k == 0 {
					scale(to, row, w[k])
				} else {
					axpy(to, row, w[k])
				}
			}
			if !m.Spend(inner * p.N) {
				return
			}
		}
	})
	return c.Err()
}

func scaleRow[T kit.RealFloat](dst, x []T, f T) {
	for i, v := range x[:len(dst)] {
		dst[i] = f * v
	}
}

func axpyRowOf[T kit.RealFloat](dst, x []T, f T) {
	for i, v := range x[:len(dst)] {
		dst[i] += f * v
	}
}

// sumRows is scaleRow and axpyRowOf in one loop.
func sumRows[T kit.RealFloat](dst, x, y []T, f, g T) {
	x, y = x[:len(dst)], y[:len(dst)]
	for i := range dst {
		dst[i] = f*x[i] + g*y[i]
	}
}

// mostPairs is the number of outputs of a row that a call of the kernel for pairs computes, at
// most.
const mostPairs = 1 << 14

// resizeInner resizes the innermost axis of src, which has outer rows.
func resizeInner[T kit.RealFloat](c *ir.Call, dst, src, weight []T, outer int, p *resizeAxis, outside T) error {
	x, single := any(src).([]float32)
	y, _ := any(dst).([]float32)
	var pairs *vec.Pairs
	if single && p.N == 2 && p.Outside == nil && p.Out <= mostPairs && outer > 1 {
		pairs = vec.NewPairs(cpu.Active(), p.In, p.Index, any(weight).([]float32))
	}
	c.Parallel(outer*p.Out, kit.GrainFor(p.N), func(lo, hi int) {
		m := &ir.Meter{C: c}
		for lo < hi {
			row, first := lo/p.Out, lo%p.Out
			if pairs != nil && first == 0 && hi-lo >= p.Out {
				pairs.Sum(y[row*p.Out:][:p.Out], x[row*p.In:][:p.In])
				if lo += p.Out; !m.Spend(p.Out) {
					return
				}
				continue
			}
			if p.N == 2 && first == 0 && hi-lo >= 4*p.Out && p.Outside == nil {
				resizeRows(dst[row*p.Out:], src[row*p.In:], weight, p)
				if lo += 4 * p.Out; !m.Spend(8 * p.Out) {
					return
				}
				continue
			}
			end := min(p.Out, first+hi-lo)
			from, to := src[row*p.In:][:p.In], dst[row*p.Out+first:][:end-first]
			index, w := p.Index[first*p.N:end*p.N], weight[first*p.N:end*p.N]
			if p.N == 2 {
				for o := range to {
					i, f := index[2*o:][:2], w[2*o:][:2]
					to[o] = f[0]*from[i[0]] + f[1]*from[i[1]]
				}
			} else {
				for o := range to {
					f := w[o*p.N:][:p.N]
					var sum T
					for k, i := range index[o*p.N:][:p.N] {
						sum += f[k] * from[i]
					}
					to[o] = sum
				}
			}
			if p.Outside != nil {
				for o := range to {
					if p.Outside[first+o] {
						to[o] = outside
					}
				}
			}
			if lo += len(to); !m.Spend(len(to) * p.N) {
				return
			}
		}
	})
	return c.Err()
}

// resizeRows resizes four rows, which share the indices and the weights of two inputs per output.
func resizeRows[T kit.RealFloat](dst, src, weight []T, p *resizeAxis) {
	n, in := p.Out, p.In
	y0, y1, y2, y3 := dst[:n], dst[n:][:n], dst[2*n:][:n], dst[3*n:][:n]
	x0, x1, x2, x3 := src[:in], src[in:][:in], src[2*in:][:in], src[3*in:][:in]
	index := p.Index[:2*n]
	weight = weight[:len(index)]
	for o := range y0 {
		a, b, f, g := index[2*o], index[2*o+1], weight[2*o], weight[2*o+1]
		y0[o] = f*x0[a] + g*x0[b]
		y1[o] = f*x1[a] + g*x1[b]
		y2[o] = f*x2[a] + g*x2[b]
		y3[o] = f*x3[a] + g*x3[b]
	}
}
