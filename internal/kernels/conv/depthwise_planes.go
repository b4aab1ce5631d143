package conv

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/kernels/gemm"
)

// DepthwisePlanes is a depthwise convolution over (C, H, W), with one or several filters per
// channel. It converts block by block to NCHW16c, so that the converted data stays in the cache;
// planes with short rows need no conversion. It is immutable.
type DepthwisePlanes struct {
	blocks  []Depthwise // for each block of channels, one per filter of a channel
	planar  *planar     // for short rows, instead of blocks
	c       int         // input channels
	filters int         // per channel
	in, out int         // elements of a plane
}

// NewDepthwisePlanes packs w of shape (C·filters, 1, KH, KW) for a checked shape with two spatial
// dimensions and as many groups as input channels. bias may be nil.
func NewDepthwisePlanes(level cpu.Level, s *Shape, w, bias []float32) (*DepthwisePlanes, error) {
	if len(s.In) != 2 || s.Group != s.Cin || s.Cout%s.Cin != 0 {
		return nil,
			fail.Errorf("%d groups of %d to %d channels over %d dimensions, want a depthwise convolution over two",
				s.Group, s.Cin, s.Cout, len(s.In))
	}
	d := &DepthwisePlanes{in: product(s.In), out: product(s.Out), c: s.Cin, filters: s.Cout / s.Cin}
	if d.filters == 1 {
		if d.planar = newPlanar(level, s, w, bias); d.planar != nil {
			return d, nil
		}
	}
	return d, d.pack(s, w, bias)
}

// pack sets the blocks.
func (d *DepthwisePlanes) pack(s *Shape, w, bias []float32) error {
	below := func(i int) int {
		return max(0, (s.Out[i]-1)*s.Stride[i]-s.PadBegin[i]+(s.Kernel[i]-1)*s.Dilation[i]-(s.In[i]-1))
	}
	taps := product(s.Kernel)
	for i := range tiles(s.Cin, Lanes) * d.filters {
		c, f := i/d.filters*Lanes, i%d.filters
		n := min(Lanes, s.Cin-c)
		var b, part []float32 // of filter f of each channel
		for k := c; k < c+n; k++ {
			at := k*d.filters + f
			part = append(part, w[at*taps:][:taps]...)
			if bias != nil {
				b = append(b, bias[at])
			}
		}
		k := Depthwise{In: NewLayout(n, s.In[0], s.In[1], s.PadBegin[0], s.PadBegin[1], below(0), below(1)),
			Out:     NewLayout(n, s.Out[0], s.Out[1], 0, 0, 0, 0),
			StrideH: s.Stride[0], StrideW: s.Stride[1], DilationH: s.Dilation[0], DilationW: s.Dilation[1],
			Top: s.PadBegin[0], Left: s.PadBegin[1],
			Weights: PackDepthwise(part, b, n, s.Kernel[0], s.Kernel[1])}
		if err := k.Check(); err != nil {
			return err
		}
		d.blocks = append(d.blocks, k)
	}
	return nil
}

// Scratch returns the number of scratch elements that a thread of [DepthwisePlanes.Run] needs.
func (d *DepthwisePlanes) Scratch() int {
	if d.planar != nil {
		return 0
	}
	return d.blocks[0].In.Len() + d.blocks[0].Out.Len()
}

// Blocks returns the number of blocks of input channels.
func (d *DepthwisePlanes) Blocks() int { return tiles(d.c, Lanes) }

// Run computes the filters of block b of x, (C, H, W).
func (d *DepthwisePlanes) Run(level cpu.Level, y, x, scratch []float32, b int, act gemm.Activation, lo, hi float32) {
	if d.planar != nil {
		d.planar.run(level, y, x, b*Lanes, min(Lanes, d.c-b*Lanes), &BlockedEpilogue{Act: act, Lo: lo, Hi: hi})
		return
	}
	blocks := d.blocks[b*d.filters:][:d.filters]
	in, out := scratch[:blocks[0].In.Len()], scratch[blocks[0].In.Len():]
	blocks[0].In.FromPlanes(level, in, x[b*Lanes*d.in:], d.in, 0, 1)
	for f := range blocks {
		k := &blocks[f]
		k.Run(level, nil, out[:k.Out.Len()], in, &BlockedEpilogue{Act: act, Lo: lo, Hi: hi})
		k.Out.ToPlanes(level, y[(b*Lanes*d.filters+f)*d.out:], out, d.filters*d.out, 0, 1)
	}
}
