package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
)

// resizeAxis is what resizing does along one axis: every output is a weighted
// sum of n inputs.
type resizeAxis struct {
	axis, in, out int
	n             int
	index         []int     // out·n inputs
	weight        []float64 // out·n weights; nil for nearest, which has n = 1
	outside       []bool    // outputs that get the extrapolation value; nil for none
}

// resizeScale is how an axis grows: the factor and the output's size, which is
// the input's times the factor but for rounding.
type resizeScale struct {
	scale      float64
	out        int
	start, end float64 // region of interest, in lengths of the axis less 1
}

// coordinate maps an output index to a place in the input.
func (r *Resize) coordinate(o, in int, s resizeScale) float64 {
	x, size := float64(o), s.scale*float64(in)
	switch r.Coordinates {
	case "align_corners":
		if size == 1 {
			return 0
		}
		return x * float64(in-1) / (size - 1)
	case "asymmetric":
		return x / s.scale
	case "tf_half_pixel_for_nn":
		return (x + 0.5) / s.scale
	case "tf_crop_and_resize":
		if size == 1 {
			return 0.5 * (s.start + s.end) * float64(in-1)
		}
		return s.start*float64(in-1) + x*(s.end-s.start)*float64(in-1)/(size-1)
	case "pytorch_half_pixel":
		if size <= 1 {
			return 0
		}
	case "half_pixel_symmetric":
		return float64(in)/2*(1-float64(s.out)/size) + (x+0.5)/s.scale - 0.5
	}
	return (x+0.5)/s.scale - 0.5
}

// plan computes indices and weights of one axis. The input has an element.
func (r *Resize) plan(c *ir.Call, axis, in int, s resizeScale) (resizeAxis, error) {
	p := resizeAxis{axis: axis, in: in, out: s.out, n: 1}
	kernel, reach := resizeLinear, 1
	if r.Mode == "cubic" {
		kernel, reach = r.cubic, 2
	}
	shrink := 1.0
	first := 1 - reach // of the inputs, from the one at the coordinate's floor
	if r.Mode != "nearest" {
		p.n = 2 * reach
		if r.Antialias && s.scale < 1 {
			shrink = s.scale
			first = int(math.Floor(-float64(reach)/shrink)) + 1
			p.n = 2 - 2*first
		}
	}
	if err := c.Reserve(int64(s.out) * int64(p.n) * 16); err != nil {
		return p, err
	}
	p.index = make([]int, s.out*p.n)
	if r.Mode != "nearest" {
		p.weight = make([]float64, s.out*p.n)
	}
	for o := range s.out {
		if o&0xfff == 0 && c.Err() != nil {
			return p, c.Err()
		}
		x := r.coordinate(o, in, s)
		if eps := 1e-6 * float64(in); r.Coordinates == "tf_crop_and_resize" && !(x >= -eps && x <= float64(in-1)+eps) {
			if p.outside == nil {
				p.outside = make([]bool, s.out)
			}
			p.outside[o] = true
			continue
		}
		if r.Coordinates == "tf_crop_and_resize" {
			x = min(max(x, 0), float64(in-1)) // ends of regions are rounded to float
		}
		// Beyond the input by this much nothing changes any more.
		far := float64(in) + float64(p.n)
		x = min(max(x, -far), far)
		if r.Mode == "nearest" {
			p.index[o] = min(max(resizeNearest(x, r.NearestMode, s.scale), 0), in-1)
			continue
		}
		base := int(math.Floor(x))
		ratio := x - float64(base)
		if ratio == 0 {
			base, ratio = base-1, 1
		}
		index, weight := p.index[o*p.n:][:p.n], p.weight[o*p.n:][:p.n]
		sum := 0.0
		for k := range index {
			i := base + first + k
			w := kernel((float64(first+k) - ratio) * shrink)
			if r.ExcludeOutside && (i < 0 || i >= in) {
				w = 0
			}
			index[k], weight[k] = min(max(i, 0), in-1), w
			sum += w
		}
		if (r.ExcludeOutside || shrink < 1) && sum != 0 {
			for k := range weight {
				weight[k] /= sum
			}
		}
	}
	return p, nil
}

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

// resizeLinear is the triangle of linear interpolation.
func resizeLinear(x float64) float64 { return max(0, 1-math.Abs(x)) }

// cubic is Keys' kernel with the operator's coefficient.
func (r *Resize) cubic(x float64) float64 { return keysKernel(x, float64(r.CubicA)) }

// resizeReal resizes src, of the given shape, along one axis to dst.
func resizeReal[T realFloat](c *ir.Call, dst, src []T, shape []int, p *resizeAxis, outside T) error {
	inner := product(shape[p.axis+1:])
	outer := len(src) / (p.in * inner)
	weight := make([]T, len(p.weight))
	for i, w := range p.weight {
		weight[i] = T(w)
	}
	if inner == 1 {
		return resizeInner(c, dst, src, weight, outer, p, outside)
	}
	scale, axpy := scaleRow[T], axpyRowOf[T]
	if _, ok := any(dst).([]float32); ok && inner >= shortRow {
		scale = func(dst, x []T, f T) {
			vec.MulScalarF32(cpu.Active(), any(dst).([]float32), any(x).([]float32), float32(f))
		}
		axpy = func(dst, x []T, f T) {
			vec.AxpyF32(cpu.Active(), any(dst).([]float32), any(x).([]float32), float32(f))
		}
	}
	c.Parallel(outer*p.out, grainFor(inner*p.n), func(lo, hi int) {
		m := &meter{c: c}
		for r := lo; r < hi; r++ {
			o := r % p.out
			from, to := src[r/p.out*p.in*inner:], dst[r*inner:][:inner]
			if p.outside != nil && p.outside[o] {
				for i := range to {
					to[i] = outside
				}
				continue
			}
			w := weight[o*p.n:][:p.n]
			for k, i := range p.index[o*p.n:][:p.n] {
				if row := from[i*inner:][:inner]; k == 0 {
					scale(to, row, w[k])
				} else {
					axpy(to, row, w[k])
				}
			}
			if !m.spend(inner * p.n) {
				return
			}
		}
	})
	return c.Err()
}

func scaleRow[T realFloat](dst, x []T, f T) {
	for i, v := range x[:len(dst)] {
		dst[i] = f * v
	}
}

func axpyRowOf[T realFloat](dst, x []T, f T) {
	for i, v := range x[:len(dst)] {
		dst[i] += f * v
	}
}

// resizeInner resizes the innermost axis of src, which has outer rows.
func resizeInner[T realFloat](c *ir.Call, dst, src, weight []T, outer int, p *resizeAxis, outside T) error {
	c.Parallel(outer*p.out, grainFor(p.n), func(lo, hi int) {
		m := &meter{c: c}
		for lo < hi {
			row, first := lo/p.out, lo%p.out
			end := min(p.out, first+hi-lo)
			from, to := src[row*p.in:][:p.in], dst[row*p.out+first:][:end-first]
			index, w := p.index[first*p.n:end*p.n], weight[first*p.n:end*p.n]
			if p.n == 2 {
				for o := range to {
					i, f := index[2*o:][:2], w[2*o:][:2]
					to[o] = f[0]*from[i[0]] + f[1]*from[i[1]]
				}
			} else {
				for o := range to {
					f := w[o*p.n:][:p.n]
					var sum T
					for k, i := range index[o*p.n:][:p.n] {
						sum += f[k] * from[i]
					}
					to[o] = sum
				}
			}
			if p.outside != nil {
				for o := range to {
					if p.outside[first+o] {
						to[o] = outside
					}
				}
			}
			if lo += len(to); !m.spend(len(to) * p.n) {
				return
			}
		}
	})
	return c.Err()
}
