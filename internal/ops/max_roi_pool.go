package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/window"
	"github.com/onward-ml/onward/tensor"
)

// MaxRoiPool crops regions of an N×C×H×W input, given by rows [image, x1, y1, x2, y2] of rois, and
// returns the maximum of each of their parts (https://arxiv.org/abs/1504.08083,
// https://onnx.ai/onnx/operators/onnx__MaxRoiPool.html). Empty parts are 0.
type MaxRoiPool struct {
	Height, Width int
	Scale         float32
}

var _ = kit.Register(&kit.Def{Name: "MaxRoiPool", Since: kit.Versions{1, 22}, In: "X:T, rois:T",
	Out: "Y:T", Types: "T: @float",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		a.Require("pooled_shape")
		s := window.Attr(a, "pooled_shape", 1)
		if len(s) != 2 {
			return a.Fail(fail.Errorf("attribute pooled_shape has %d elements, want 2", len(s)))
		}
		return &MaxRoiPool{Height: s[0], Width: s[1], Scale: a.Float("spatial_scale", 1)}
	}})

// Infer makes one image per region.
func (p *MaxRoiPool) Infer(c *ir.InferContext) error { return inferRois(c, p.Height, p.Width) }

// Run computes half-precision types in float32.
func (p *MaxRoiPool) Run(c *ir.Call) error {
	if c.Tensor(0).DType() == tensor.TypeFloat64 {
		return maxRoiPool[float64](c, p)
	}
	return maxRoiPool[float32](c, p)
}

func maxRoiPool[T kit.RealFloat](c *ir.Call, p *MaxRoiPool) error {
	s, rs := c.Tensor(0).Shape(), c.Tensor(1).Shape()
	if len(s) != 4 || len(rs) != 2 || rs[1] != 5 {
		return fail.Errorf("input has shape %v and rois %v, want rank 4 and rows of 5", s, rs)
	}
	x, err := kit.RealIn[T](c, c.Tensor(0))
	if err != nil {
		return err
	}
	rois, err := kit.RealIn[float64](c, c.Tensor(1))
	if err != nil {
		return err
	}
	y, err := kit.RealOut[T](c, 0, c.Tensor(0).DType(), rs[0], s[1], p.Height, p.Width)
	if err != nil || len(y.Data) == 0 {
		return err
	}
	h, w := s[2], s[3]
	for i := range rs[0] {
		if b := rois[i*5]; !(b >= 0 && b < float64(s[0])) {
			return fail.Errorf("region %d is in image %g, want 0 to %d", i, b, s[0]-1)
		}
	}
	c.Parallel(rs[0]*s[1], kit.GrainFor(p.Height*p.Width+h*w), func(lo, hi int) {
		m := &ir.Meter{C: c}
		for k := lo; k < hi; k++ {
			roi, ch := rois[k/s[1]*5:][:5], k%s[1]
			var place [4]float64
			for i, v := range roi[1:] {
				place[i] = math.Round(v * float64(p.Scale))
			}
			plane := x[(int(roi[0])*s[1]+ch)*h*w:][:h*w]
			for r := range p.Height {
				y0, y1 := roiPart(place[1], place[3], r, p.Height, h)
				for q := range p.Width {
					x0, x1 := roiPart(place[0], place[2], q, p.Width, w)
					best := T(0)
					if y0 < y1 && x0 < x1 {
						best = T(math.Inf(-1))
						for i := y0; i < y1; i++ {
							best = max(best, window.LargestOf(plane[i*w:][x0:x1]))
						}
					}
					y.Data[(k*p.Height+r)*p.Width+q] = best
					if !m.Spend(max(0, (y1-y0)*(x1-x0))) {
						return
					}
				}
			}
		}
	})
	y.Store()
	return c.Err()
}

// roiPart returns the elements [lo, hi), of an axis of d elements, in part i of n of the region
// from start to end.
func roiPart(start, end float64, i, n, d int) (lo, hi int) {
	size := max(end-start+1, 1) / float64(n)
	clip := func(v float64) int {
		if v != v {
			return 0
		}
		return int(min(max(v, 0), float64(d)))
	}
	return clip(start + math.Floor(float64(i)*size)), clip(start + math.Ceil(float64(i+1)*size))
}
