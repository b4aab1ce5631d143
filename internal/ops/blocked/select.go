package blocked

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/conv"
)

// Select copies rows and columns of blocked images: a Resize in mode nearest, a Pad that repeats
// elements, or a circular padding.
type Select struct {
	In, Out       Layout
	Rows, Columns []int // of the input, for each of the output
}

// Infer gives the blocked type.
func (r *Select) Infer(c *ir.InferContext) error { return inferBlocked(c, &r.Out) }

// Run copies pixel by pixel, and rows that repeat at once.
func (r *Select) Run(c *ir.Call) error {
	n, x, err := blockedIn(c, 0, &r.In)
	if err != nil {
		return err
	}
	y, err := blockedOut(c, n, &r.Out)
	if err != nil {
		return err
	}
	blocks, height, size := r.Out.Blocks(), r.Out.H, r.Out.W*conv.Lanes
	c.Launch(n*blocks*height, 1+(1<<13)/size, func(lo, hi int) {
		for u := lo; u < hi; u++ {
			i, cb, row := u/height/blocks, u/height%blocks, u%height
			image := y[i*r.Out.Len():][:r.Out.Len()]
			dst := image[r.Out.At(cb, row, 0):][:size]
			if u > lo && row > 0 && r.Rows[row] == r.Rows[row-1] {
				copy(dst, image[r.Out.At(cb, row-1, 0):])
				continue
			}
			src := x[i*r.In.Len()+r.In.At(cb, r.Rows[row], 0):][:r.In.W*conv.Lanes]
			for o, k := range r.Columns {
				*(*[conv.Lanes]float32)(dst[o*conv.Lanes:]) = [conv.Lanes]float32(src[k*conv.Lanes:])
			}
		}
	})
	return nil
}
