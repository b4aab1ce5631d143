package blocked

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/conv"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops"
)

// Shuffle is [ChannelShuffle] on blocked images.
type Shuffle struct {
	In, Out Layout
	from    []int // per output channel: where the input channel begins, relative to block 0
}

// NewShuffle returns s for images in the layouts in and out.
func NewShuffle(s *ChannelShuffle, in, out Layout) *Shuffle {
	r := &Shuffle{In: in, Out: out, from: make([]int, out.Blocks()*conv.Lanes)}
	for i := range r.from {
		k := i // padding channels do not change
		if i < in.C {
			k = s.source(i, in.C)
		}
		r.from[i] = in.At(k/conv.Lanes, 0, 0) + k%conv.Lanes
	}
	return r
}

// Infer gives the blocked type.
func (s *Shuffle) Infer(c *ir.InferContext) error { return inferBlocked(c, &s.Out) }

// Run gathers pixel by pixel.
func (s *Shuffle) Run(c *ir.Call) error {
	n, x, err := blockedIn(c, 0, &s.In)
	if err != nil {
		return err
	}
	y, err := blockedOut(c, n, &s.Out)
	if err != nil {
		return err
	}
	blockedRows(c, n, []*Layout{&s.Out, &s.In}, func(i, cb, row, w int) {
		dst := y[i*s.Out.Len()+s.Out.At(cb, row, 0):][:w]
		src := x[i*s.In.Len()+s.In.At(0, row, 0)-s.In.At(0, 0, 0):]
		from := (*[conv.Lanes]int)(s.from[cb*conv.Lanes:])
		for k := 0; k+conv.Lanes <= len(dst); k += conv.Lanes {
			d := (*[conv.Lanes]float32)(dst[k:])
			p := src[k:]
			for l := range d {
				d[l] = p[from[l]]
			}
		}
	})
	return nil
}

// LRN is [ops.LRN] on blocked images.
type LRN struct {
	ops.LRN
	In, Out Layout
}

// Infer gives the blocked type.
func (v *LRN) Infer(c *ir.InferContext) error { return inferBlocked(c, &v.Out) }

// Run gathers the channels of a pixel, so that the neighbours in the sum are adjacent.
func (v *LRN) Run(c *ir.Call) error {
	n, x, err := blockedIn(c, 0, &v.In)
	if err != nil {
		return err
	}
	y, err := blockedOut(c, n, &v.Out)
	if err != nil {
		return err
	}
	ch, blocks := v.In.C, v.In.Blocks()
	before, after := (v.Size-1)/2, v.Size/2
	before, after = min(before, ch), min(after, ch)
	alpha := v.Alpha / float32(v.Size)
	level := cpu.Active()
	c.Parallel(n*v.In.H, 1+(1<<11)/(v.In.W*ch+1), func(lo, hi int) {
		// Channels with zeros on both sides, their squares, and the sums.
		wide := make([]float32, before+blocks*conv.Lanes+after)
		px, sum, root := make([]float32, blocks*conv.Lanes), make([]float32, ch), make([]float32, ch)
		for r := lo; r < hi; r++ {
			img, row := r/v.In.H, r%v.In.H
			for col := range v.In.W {
				for b := range blocks {
					copy(px[b*conv.Lanes:], x[img*v.In.Len()+v.In.At(b, row, col):][:conv.Lanes])
				}
				vec.MulF32(level, wide[before:before+ch], px[:ch], px[:ch])
				copy(sum, wide[:ch])
				for k := 1; k <= before+after; k++ {
					vec.AddF32(level, sum, sum, wide[k:k+ch])
				}
				vec.ScaleShiftF32(level, sum, sum, alpha, v.Bias)
				if v.Beta == 0.75 {
					vec.SqrtF32(level, sum, sum)
					vec.SqrtF32(level, root, sum)
					vec.MulF32(level, sum, sum, root)
				} else {
					for i, d := range sum {
						sum[i] = float32(math.Pow(float64(d), float64(v.Beta)))
					}
				}
				vec.DivF32(level, px[:ch], px[:ch], sum)
				for b := range blocks {
					copy(y[img*v.Out.Len()+v.Out.At(b, row, col):][:conv.Lanes], px[b*conv.Lanes:])
				}
			}
		}
	})
	return c.Err()
}
