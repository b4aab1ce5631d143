package conv

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
)

// DepthwisePixels is a depthwise convolution with one filter per channel over (H, W, C). It copies
// block by block to NCHW16c, so that the copy stays in the cache. It is immutable.
type DepthwisePixels struct{ planes DepthwisePlanes }

// NewDepthwisePixels packs w of shape (C, 1, KH, KW) for a checked shape with two spatial
// dimensions and as many groups as channels. bias may be nil.
func NewDepthwisePixels(s *Shape, w, bias []float32) (*DepthwisePixels, error) {
	if len(s.In) != 2 || s.Group != s.Cin || s.Cout != s.Cin {
		return nil,
			fail.Errorf("%d groups of %d to %d channels over %d dimensions, want one filter per channel over two",
				s.Group, s.Cin, s.Cout, len(s.In))
	}
	d := &DepthwisePixels{DepthwisePlanes{in: product(s.In), out: product(s.Out), c: s.Cin, filters: 1}}
	return d, d.planes.pack(s, w, bias)
}

// Scratch returns the number of scratch elements that a thread of [DepthwisePixels.Run] needs.
func (d *DepthwisePixels) Scratch() int { return d.planes.Scratch() }

// Blocks returns the number of blocks of channels.
func (d *DepthwisePixels) Blocks() int { return d.planes.Blocks() }

// Run computes block b of channels of x, (H, W, C).
func (d *DepthwisePixels) Run(level cpu.Level, y, x, scratch []float32, b int, ep *BlockedEpilogue) {
	k, c := &d.planes.blocks[b], d.planes.c
	in, out := scratch[:k.In.Len()], scratch[k.In.Len():][:k.Out.Len()]
	k.In.fromPixels(in, x[b*Lanes:], c)
	k.Run(level, nil, out, in, ep)
	k.Out.toPixels(y[b*Lanes:], out, c)
}

// fromPixels copies an image of one block, including the border, from pixels that are step elements
// apart. Channels beyond C become zero.
func (l *Layout) fromPixels(dst, x []float32, step int) {
	l.clearBorder(dst, 0, l.H)
	for y := range l.H {
		row, from := dst[l.At(0, y, 0):][:l.W*Lanes], x[y*l.W*step:][:(l.W-1)*step+l.C]
		if l.C == Lanes {
			copyPixels(row, from, l.W, Lanes, step)
			continue
		}
		clear(row)
		for p := range l.W {
			copy(row[p*Lanes:], from[p*step:][:l.C])
		}
	}
}

// toPixels copies an image of one block to pixels that are step elements apart.
func (l *Layout) toPixels(y, src []float32, step int) {
	for r := range l.H {
		row, to := src[l.At(0, r, 0):][:l.W*Lanes], y[r*l.W*step:][:(l.W-1)*step+l.C]
		if l.C == Lanes {
			copyPixels(to, row, l.W, step, Lanes)
			continue
		}
		for p := range l.W {
			copy(to[p*step:][:l.C], row[p*Lanes:])
		}
	}
}
