package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/window"
	"github.com/onward-ml/onward/tensor"
)

// RoiAlign samples regions [x1, y1, x2, y2] of an N×C×H×W input with bilinear interpolation. It
// returns the mean or maximum of the samples in each part of a region
// (https://arxiv.org/abs/1703.06870, https://onnx.ai/onnx/operators/onnx__RoiAlign.html).
type RoiAlign struct {
	Height, Width int
	Samples       int // per axis of a part; 0: one per element covered
	Scale         float32
	Max           bool
	HalfPixel     bool // subtract one half from coordinates, and allow regions smaller than an element
}

var _ = kit.Register(&kit.Def{Name: "RoiAlign", Since: kit.Versions{10, 16, 22}, In: "X:T1, rois:T1, batch_indices:T2",
	Out:   "Y:T1",
	Class: kit.ClassReduction,
	Types: "T1: @float; T2: int64",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		r := &RoiAlign{Height: a.Int("output_height", 1), Width: a.Int("output_width", 1),
			Samples: a.Int("sampling_ratio", 0),
			Scale:   a.Float("spatial_scale", 1), Max: a.Enum("mode", "avg", "avg", "max") == "max"}
		if opset >= 16 {
			r.HalfPixel = a.Enum("coordinate_transformation_mode", "half_pixel", "half_pixel", "output_half_pixel") ==
				"half_pixel"
		}
		for _, v := range []int{r.Height, r.Width} {
			if v < 1 || v > window.Limit {
				a.Errorf("output size is %d×%d, want at least 1×1", r.Height, r.Width)
				break
			}
		}
		if r.Samples < 0 || r.Samples > roiSamples {
			a.Errorf("attribute sampling_ratio is %d, want 0 to %d", r.Samples, roiSamples)
		}
		return r
	}})

// roiSamples limits the number of samples along an axis of a part.
const roiSamples = 1 << 20

// Infer makes one image per region.
func (r *RoiAlign) Infer(c *ir.InferContext) error { return inferRois(c, r.Height, r.Width) }

// Run computes half-precision types in float32.
func (r *RoiAlign) Run(c *ir.Call) error {
	if c.Tensor(0).DType() == tensor.TypeFloat64 {
		return roiAlign[float64](c, r)
	}
	return roiAlign[float32](c, r)
}

// roiTap is the coordinate of a sample on an axis: two adjacent elements and their weights.
type roiTap struct {
	low, high   int
	wLow, wHigh float64 // both 0 outside of the input
}

// taps returns the samples of all parts of a region on an axis of d elements, and the number of
// samples per part.
func (r *RoiAlign) taps(from, to float64, parts, d int) ([]roiTap, int, error) {
	start, end := from*float64(r.Scale), to*float64(r.Scale)
	if r.HalfPixel {
		start, end = start-0.5, end-0.5
	}
	size := end - start
	if !r.HalfPixel {
		size = max(size, 1)
	}
	size /= float64(parts)
	n := r.Samples
	if n == 0 {
		f := math.Ceil(size)
		if !(f <= roiSamples) {
			return nil, 0, fail.Errorf("region from %g to %g needs %g samples per part, want at most %d",
				from, to, f, roiSamples)
		}
		n = int(max(f, 0))
	}
	if n*parts > roiSamples {
		return nil, 0, fail.Errorf("region needs %d samples along an axis, want at most %d", n*parts, roiSamples)
	}
	taps := make([]roiTap, n*parts)
	for i := range taps {
		x := start + float64(i/n)*size + (float64(i%n)+0.5)*size/float64(n)
		if !(x >= -1 && x <= float64(d)) || d == 0 {
			continue
		}
		x = max(x, 0)
		low := int(x)
		if low >= d-1 {
			taps[i] = roiTap{low: d - 1, high: d - 1, wLow: 1}
			continue
		}
		f := x - float64(low)
		taps[i] = roiTap{low: low, high: low + 1, wLow: 1 - f, wHigh: f}
	}
	return taps, n, nil
}

func roiAlign[T kit.RealFloat](c *ir.Call, r *RoiAlign) error {
	s, rs := c.Tensor(0).Shape(), c.Tensor(1).Shape()
	images := kit.Ints(c.Tensor(2))
	if len(s) != 4 || len(rs) != 2 || rs[1] != 4 || c.Tensor(2).Rank() != 1 || len(images) != rs[0] {
		return fail.Errorf("input has shape %v, rois %v and batch_indices %v, want rank 4, rows of 4 and "+
			"as many indices", s, rs, c.Tensor(2).Shape())
	}
	for _, b := range images {
		if b < 0 || b >= s[0] {
			return fail.Errorf("batch_indices has the element %d, want 0 to %d", b, s[0]-1)
		}
	}
	x, err := kit.RealIn[T](c, c.Tensor(0))
	if err != nil {
		return err
	}
	rois, err := kit.RealIn[float64](c, c.Tensor(1))
	if err != nil {
		return err
	}
	y, err := kit.RealOut[T](c, 0, c.Tensor(0).DType(), rs[0], s[1], r.Height, r.Width)
	if err != nil || len(y.Data) == 0 {
		return err
	}
	h, w := s[2], s[3]
	if many := s[0]*h*w <= 4*rs[0]*r.Height*r.Width*max(1, r.Samples*r.Samples); many && !c.Generic && !r.Max &&
		s[1] >= roiRowsFrom {
		if err := roiRows(c, r, y.Data, x, rois, images, s); err != nil {
			return err
		}
		y.Store()
		return c.Err()
	}
	for i := range rs[0] {
		if err := c.Err(); err != nil {
			return err
		}
		roi := rois[i*4:][:4]
		xt, nx, err := r.taps(roi[0], roi[2], r.Width, w)
		if err != nil {
			return err
		}
		yt, ny, err := r.taps(roi[1], roi[3], r.Height, h)
		if err != nil {
			return err
		}
		per := nx * ny
		if per == 0 {
			ir.Clear(c, y.Data[i*s[1]*r.Height*r.Width:][:s[1]*r.Height*r.Width])
			continue
		}
		if !c.Generic && !r.Max && per <= roiListed && h*w <= math.MaxInt32 {
			samples, err := ir.ScratchOf[roiSample[T]](c, r.Height*r.Width*per)
			if err != nil {
				return err
			}
			roiList(samples, xt, yt, nx, ny, r.Width, w)
			c.Parallel(s[1], kit.GrainFor(4*len(samples)), func(lo, hi int) {
				m := &ir.Meter{C: c}
				for ch := lo; ch < hi && m.Spend(4*len(samples)); ch++ {
					roiMeans(y.Data[(i*s[1]+ch)*r.Height*r.Width:][:r.Height*r.Width],
						x[(images[i]*s[1]+ch)*h*w:][:h*w], samples, per)
				}
			})
			continue
		}
		c.Parallel(s[1], kit.GrainFor(4*len(xt)*len(yt)), func(lo, hi int) {
			m := &ir.Meter{C: c}
			for ch := lo; ch < hi; ch++ {
				plane := x[(images[i]*s[1]+ch)*h*w:][:h*w]
				out := y.Data[(i*s[1]+ch)*r.Height*r.Width:][:r.Height*r.Width]
				for k := range out {
					ys, xs := yt[k/r.Width*ny:][:ny], xt[k%r.Width*nx:][:nx]
					if !m.Spend(4 * nx * ny) {
						return
					}
					out[k] = T(roiPool(m, plane, w, ys, xs, r.Max))
				}
			}
		})
	}
	y.Store()
	return c.Err()
}

// roiRowsFrom is the number of channels from which regions sample rows of channels.
const roiRowsFrom = 8

// roiRows computes means. The input, of shape s, is transposed first, so that the channels of an
// element are adjacent: a sample is a sum of rows.
func roiRows[T kit.RealFloat](c *ir.Call, r *RoiAlign, y, x []T, rois []float64, images, s []int) error {
	ch, w, plane, parts := s[1], s[3], s[2]*s[3], r.Height*r.Width
	turned, err := ir.ScratchOf[T](c, len(x))
	if err != nil {
		return err
	}
	channelsLast(c, turned, x, ch, plane)
	scratch, err := ir.ScratchOf[T](c, kit.WorkspaceCount(c, len(images))*parts*ch)
	if err != nil {
		return err
	}
	return kit.InWorkspaces(c, len(images), func(ws, i int) error {
		xt, nx, err := r.taps(rois[4*i], rois[4*i+2], r.Width, w)
		if err != nil {
			return err
		}
		yt, ny, err := r.taps(rois[4*i+1], rois[4*i+3], r.Height, s[2])
		if err != nil {
			return err
		}
		rows, image := scratch[ws*parts*ch:][:parts*ch], turned[images[i]*plane*ch:][:plane*ch]
		clear(rows)
		m := &ir.Meter{C: c}
		per := float64(nx * ny)
		for k := range parts {
			row := rows[k*ch:][:ch]
			for _, v := range yt[k/r.Width*ny:][:ny] {
				for _, u := range xt[k%r.Width*nx:][:nx] {
					if !m.Spend(4 * ch) {
						return c.Err()
					}
					if v.wLow+v.wHigh == 0 || u.wLow+u.wHigh == 0 {
						continue
					}
					low, high, step := u.wLow/per, u.wHigh/per, (u.high-u.low)*ch
					addRows(row, image[(v.low*w+u.low)*ch:], step, []T{T(v.wLow * low), T(v.wLow * high)})
					addRows(row, image[(v.high*w+u.low)*ch:], step, []T{T(v.wHigh * low), T(v.wHigh * high)})
				}
			}
		}
		transposeReal(y[i*parts*ch:], parts, rows, ch, parts, ch)
		return nil
	})
}

// roiListed is the largest number of samples of a part that are listed for all channels.
const roiListed = 16

// A roiSample is a sample of a plane: the indices of four elements and their weights.
type roiSample[T kit.RealFloat] struct {
	at     [4]int32
	weight [4]T
	inside bool
}

// roiList sets the samples of all parts of a region.
func roiList[T kit.RealFloat](samples []roiSample[T], xt, yt []roiTap, nx, ny, width, w int) {
	for i := range samples {
		part, k := i/(nx*ny), i%(nx*ny)
		v, u := &yt[part/width*ny+k/nx], &xt[part%width*nx+k%nx]
		s := roiSample[T]{inside: v.wLow+v.wHigh != 0 && u.wLow+u.wHigh != 0,
			at: [4]int32{int32(v.low*w + u.low), int32(v.low*w + u.high), int32(v.high*w + u.low),
				int32(v.high*w + u.high)}}
		s.weight = [4]T{T(v.wLow * u.wLow), T(v.wLow * u.wHigh), T(v.wHigh * u.wLow), T(v.wHigh * u.wHigh)}
		samples[i] = s
	}
}

// roiMeans sets out to the means of the samples of each part.
func roiMeans[T kit.RealFloat](out, plane []T, samples []roiSample[T], per int) {
	for k := range out {
		var sum T
		for i := range samples[k*per:][:per] {
			s := &samples[k*per+i]
			if !s.inside {
				continue
			}
			sum += s.weight[0]*plane[s.at[0]] + s.weight[1]*plane[s.at[1]] + s.weight[2]*plane[s.at[2]] +
				s.weight[3]*plane[s.at[3]]
		}
		out[k] = sum / T(per)
	}
}

// roiPool returns the mean of the samples of one part, in a plane with rows of w elements, or the
// maximum of the weighted elements of the samples.
func roiPool[T kit.RealFloat](m *ir.Meter, plane []T, w int, ys, xs []roiTap, largest bool) float64 {
	sum, best := 0.0, math.Inf(-1)
	for _, v := range ys {
		m.Check(4 * len(xs))
		for _, u := range xs {
			if v.wLow+v.wHigh == 0 || u.wLow+u.wHigh == 0 {
				best = max(best, 0)
				continue
			}
			low, high := plane[v.low*w:][:w], plane[v.high*w:][:w]
			a, b := v.wLow*u.wLow*float64(low[u.low]), v.wLow*u.wHigh*float64(low[u.high])
			e, f := v.wHigh*u.wLow*float64(high[u.low]), v.wHigh*u.wHigh*float64(high[u.high])
			sum += a + b + e + f
			best = max(best, a, b, e, f)
		}
	}
	switch {
	case len(ys)*len(xs) == 0:
		return 0
	case largest:
		return best
	}
	return sum / float64(len(ys)*len(xs))
}
