package conv

import (
	"fmt"
	"sync"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/kernels/vec"
)

// Lanes is the number of channels in one block of NCHW16c.
const Lanes = 16

// Layout is the blocked layout NCHW16c of one image: [C/16][Top+H+Bottom][Left+W+Right][16]. The
// last block is padded with channels of arbitrary finite values; their weights are zero. The border
// is zero, for convolutions that read beyond the edge.
type Layout struct {
	C, H, W                  int
	Top, Left, Bottom, Right int
	Row, Block               int // distances in elements between rows and between blocks
}

// NewLayout returns the layout of c channels of h×w with the given border. Blocks are 16 elements
// further apart than necessary: with distances of powers of two, all blocks would map to the same
// cache sets.
func NewLayout(c, h, w, top, left, bottom, right int) Layout {
	l := Layout{C: c, H: h, W: w, Top: top, Left: left, Bottom: bottom, Right: right}
	l.Row = (left + w + right) * Lanes
	l.Block = (top+h+bottom)*l.Row + Lanes
	return l
}

// Blocks returns the number of channel blocks.
func (l *Layout) Blocks() int { return (l.C + Lanes - 1) / Lanes }

// idleGroups returns the groups of four channels at the end of the last block that only pad it.
func (l *Layout) idleGroups() int { return (l.Blocks()*Lanes - l.C) / 4 }

// Len returns the number of elements of one image.
func (l *Layout) Len() int { return l.Blocks() * l.Block }

// At returns the index of pixel (y, x) in channel 0 of block cb. The border has coordinates below 0
// and beyond H and W.
func (l *Layout) At(cb, y, x int) int {
	return cb*l.Block + (y+l.Top)*l.Row + (x+l.Left)*Lanes
}

// Flat reports whether rows are contiguous, without a border.
func (l *Layout) Flat() bool { return l.Row == l.W*Lanes }

// FinitePadding makes the padding channels of the last block zero where they are NaN, which a
// convolution makes of infinite inputs and its weights of zero.
func (l *Layout) FinitePadding(level cpu.Level, data []float32) {
	for y := range l.H {
		row := data[l.At(l.Blocks()-1, y, 0):][:l.W*Lanes]
		if s := vec.SumF32(level, row); s == s {
			continue
		}
		for i, v := range row {
			if i%Lanes >= l.C%Lanes && v != v {
				row[i] = 0
			}
		}
	}
}

// Column reports whether images have a width of 1 and no border beside it. They have the same
// memory as images of height 1, see [Layout.Turned].
func (l *Layout) Column() bool { return l.W == 1 && l.Left == 0 && l.Right == 0 }

// Turned returns the layout of the images of a [Layout.Column] with the axes exchanged.
func (l *Layout) Turned() Layout {
	t := NewLayout(l.C, 1, l.H, 0, l.Top, 0, l.Bottom)
	t.Block = l.Block
	return t
}

func (l *Layout) check(what string, data []float32) {
	if len(data) < l.Len() {
		panic(fmt.Sprintf("conv: %s has %d elements, its layout %+v needs %d", what, len(data), *l, l.Len()))
	}
}

// ClearBorder zeroes the border of the blocks [lo, hi).
func (l *Layout) ClearBorder(data []float32, lo, hi int) {
	for b := lo; b < hi; b++ {
		d := data[b*l.Block:][:l.Block]
		clear(d[:l.Top*l.Row])
		for y := range l.H {
			r := d[(l.Top+y)*l.Row:][:l.Row]
			clear(r[:l.Left*Lanes])
			clear(r[(l.Left+l.W)*Lanes:])
		}
		clear(d[(l.Top+l.H)*l.Row:])
	}
}

// FromNCHW converts blocks [lo, hi) of an image, including the border, from x of shape (C, H, W).
// Channels beyond C become zero.
func (l *Layout) FromNCHW(level cpu.Level, dst, x []float32, lo, hi int) {
	l.FromPlanes(level, dst, x, l.H*l.W, lo, hi)
}

// FromPlanes is [Layout.FromNCHW] for planes that are hw elements apart.
func (l *Layout) FromPlanes(level cpu.Level, dst, x []float32, hw, lo, hi int) {
	l.check("dst", dst)
	l.ClearBorder(dst, lo, hi)
	for b := lo; b < hi; b++ {
		n := min(Lanes, l.C-b*Lanes)
		src := x[b*Lanes*hw:]
		if n < Lanes {
			for y := range l.H {
				clear(dst[l.At(b, y, 0):][:l.W*Lanes])
			}
		}
		if l.Flat() {
			vec.TransposeF32(level, dst[l.At(b, 0, 0):], Lanes, src, hw, n, l.H*l.W)
			continue
		}
		if l.W >= 4*Lanes {
			for y := range l.H {
				vec.TransposeF32(level, dst[l.At(b, y, 0):], Lanes, src[y*l.W:], hw, n, l.W)
			}
			continue
		}
		// Narrow rows do not fill a vector, so convert several at a time.
		bp := stagePool.Get().(*[stagePixels * Lanes]float32)
		for y, rows := 0, max(1, stagePixels/l.W); y < l.H; y += rows {
			rows = min(rows, l.H-y)
			vec.TransposeF32(level, bp[:], Lanes, src[y*l.W:], hw, n, rows*l.W)
			for r := range rows {
				row, from := dst[l.At(b, y+r, 0):][:l.W*Lanes], bp[r*l.W*Lanes:]
				if n == Lanes {
					copy(row, from)
					continue
				}
				for p := 0; p < len(row); p += Lanes {
					copy(row[p:p+n], from[p:])
				}
			}
		}
		stagePool.Put(bp)
	}
}

// stagePixels is the number of pixels of narrow rows that are converted at a time.
const stagePixels = 256

var stagePool = sync.Pool{New: func() any { return new([stagePixels * Lanes]float32) }}

// ToNCHW converts blocks [lo, hi) to y of shape (C, H, W).
func (l *Layout) ToNCHW(level cpu.Level, y, src []float32, lo, hi int) {
	l.ToPlanes(level, y, src, l.H*l.W, lo, hi)
}

// ToPlanes is [Layout.ToNCHW] for planes that are hw elements apart.
func (l *Layout) ToPlanes(level cpu.Level, y, src []float32, hw, lo, hi int) {
	l.check("src", src)
	for b := lo; b < hi; b++ {
		n := min(Lanes, l.C-b*Lanes)
		dst := y[b*Lanes*hw:]
		if l.Flat() {
			vec.TransposeF32(level, dst, hw, src[l.At(b, 0, 0):], Lanes, l.H*l.W, n)
			continue
		}
		for r := range l.H {
			vec.TransposeF32(level, dst[r*l.W:], hw, src[l.At(b, r, 0):], Lanes, l.W, n)
		}
	}
}
