package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit/window"
)

// coordinate maps an output index to an input coordinate.
func (r *Resize) coordinate(o, in int, s resizeScale) float64 {
	x, size := float64(o), s.Scale*float64(in)
	switch r.Coordinates {
	case "align_corners":
		if size == 1 {
			return 0
		}
		return x * float64(in-1) / (size - 1)
	case "asymmetric":
		return x / s.Scale
	case "tf_half_pixel_for_nn":
		return (x + 0.5) / s.Scale
	case "tf_crop_and_resize":
		if size == 1 {
			return 0.5 * (s.Start + s.End) * float64(in-1)
		}
		return s.Start*float64(in-1) + x*(s.End-s.Start)*float64(in-1)/(size-1)
	case "pytorch_half_pixel":
		if size <= 1 {
			return 0
		}
	case "half_pixel_symmetric":
		return float64(in)/2*(1-float64(s.Out)/size) + (x+0.5)/s.Scale - 0.5
	}
	return (x+0.5)/s.Scale - 0.5
}

// nearest returns the input index that output o selects.
func (r *Resize) nearest(o, in int, s resizeScale) int {
	far := float64(in) + 1
	x := min(max(r.coordinate(o, in, s), -far), far)
	return min(max(resizeNearest(x, r.NearestMode, s.Scale), 0), in-1)
}

// plan computes indices and weights of one axis. The input must not be empty.
func (r *Resize) plan(c *ir.Call, axis, in int, s resizeScale) (resizeAxis, error) {
	p := resizeAxis{Axis: axis, In: in, Out: s.Out, N: 1}
	kernel, reach := resizeLinear, 1
	if r.Mode == "cubic" {
		kernel, reach = r.cubic, 2
	}
	shrink := 1.0
	first := 1 - reach // first input, relative to the floor of the coordinate
	if r.Mode != "nearest" {
		p.N = 2 * reach
		if r.Antialias && s.Scale < 1 {
			shrink = s.Scale
			first = int(math.Floor(-float64(reach)/shrink)) + 1
			p.N = 2 - 2*first
		}
	}
	if err := c.Reserve(int64(s.Out) * int64(p.N) * 16); err != nil {
		return p, err
	}
	p.Index = make([]int, s.Out*p.N)
	if r.Mode != "nearest" {
		p.Weight = make([]float64, s.Out*p.N)
	}
	for o := range s.Out {
		if o&0xfff == 0 && c.Err() != nil {
			return p, c.Err()
		}
		x := r.coordinate(o, in, s)
		if eps := 1e-6 * float64(in); r.Coordinates == "tf_crop_and_resize" && !(x >= -eps && x <= float64(in-1)+eps) {
			if p.Outside == nil {
				p.Outside = make([]bool, s.Out)
			}
			p.Outside[o] = true
			continue
		}
		if r.Coordinates == "tf_crop_and_resize" {
			x = min(max(x, 0), float64(in-1)) // the ends of regions are rounded to float32
		}
		// Beyond this distance from the input, the result does not change.
		far := float64(in) + float64(p.N)
		x = min(max(x, -far), far)
		if r.Mode == "nearest" {
			p.Index[o] = r.nearest(o, in, s)
			continue
		}
		base := int(math.Floor(x))
		ratio := x - float64(base)
		if ratio == 0 {
			base, ratio = base-1, 1
		}
		index, weight := p.Index[o*p.N:][:p.N], p.Weight[o*p.N:][:p.N]
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

// cubic is Keys' kernel with the coefficient of the operator.
func (r *Resize) cubic(x float64) float64 { return window.KeysKernel(x, float64(r.CubicA)) }
