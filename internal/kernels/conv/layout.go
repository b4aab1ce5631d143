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

// Planar returns the number of elements of an image in NCHW.
func (l *Layout) Planar() int { return l.C * l.H * l.W }

// Flat reports whether rows are contiguous, without a border.
func (l *Layout) Flat() bool { return l.Row == l.W*Lanes }

// bandPixels is the number of pixels of a band, at least, unless the image has fewer.
const bandPixels = 512

// Bands returns the number of bands of rows into which threads divide each block.
func (l *Layout) Bands() int { return min(l.H, max(1, l.H*l.W/bandPixels)) }

// band returns the rows of a band.
func (l *Layout) band(i int) (lo, hi int) { return l.H * i / l.Bands(), l.H * (i + 1) / l.Bands() }

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
		l.clearBorder(data[b*l.Block:][:l.Block], 0, l.H)
	}
}

// clearBorder zeroes the border beside rows [y0, y1) of a block, and above and below the image.
func (l *Layout) clearBorder(d []float32, y0, y1 int) {
	if y0 == 0 {
		clear(d[:l.Top*l.Row])
	}
	for y := y0; y < y1; y++ {
		r := d[(l.Top+y)*l.Row:][:l.Row]
		clear(r[:l.Left*Lanes])
		clear(r[(l.Left+l.W)*Lanes:])
	}
	if y1 == l.H {
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
	for b := lo; b < hi; b++ {
		l.fromRows(level, dst, x, hw, b, 0, l.H)
	}
}

// FromBands is [Layout.FromNCHW] for bands [lo, hi) of all blocks.
func (l *Layout) FromBands(level cpu.Level, dst, x []float32, lo, hi int) {
	l.check("dst", dst)
	for u, bands := lo, l.Bands(); u < hi; u++ {
		y0, y1 := l.band(u % bands)
		l.fromRows(level, dst, x, l.H*l.W, u/bands, y0, y1)
	}
}

// fromRows converts rows [y0, y1) of a block.
func (l *Layout) fromRows(level cpu.Level, dst, x []float32, hw, b, y0, y1 int) {
	l.clearBorder(dst[b*l.Block:][:l.Block], y0, y1)
	n := min(Lanes, l.C-b*Lanes)
	src := x[b*Lanes*hw:]
	if n < Lanes {
		for y := y0; y < y1; y++ {
			clear(dst[l.At(b, y, 0):][:l.W*Lanes])
		}
	}
	if l.Flat() {
		vec.TransposeF32(level, dst[l.At(b, y0, 0):], Lanes, src[y0*l.W:], hw, n, (y1-y0)*l.W)
		return
	}
	if l.W >= 4*Lanes {
		for y := y0; y < y1; y++ {
			vec.TransposeF32(level, dst[l.At(b, y, 0):], Lanes, src[y*l.W:], hw, n, l.W)
		}
		return
	}
	// Narrow rows do not fill a vector, so convert several at a time.
	bp := stagePool.Get().(*[stagePixels * Lanes]float32)
	for y, rows := y0, max(1, stagePixels/l.W); y < y1; y += rows {
		rows = min(rows, y1-y)
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
		l.toRows(level, y, src, hw, b, 0, l.H)
	}
}

// ToBands is [Layout.ToNCHW] for bands [lo, hi) of all blocks.
func (l *Layout) ToBands(level cpu.Level, y, src []float32, lo, hi int) {
	l.check("src", src)
	for u, bands := lo, l.Bands(); u < hi; u++ {
		y0, y1 := l.band(u % bands)
		l.toRows(level, y, src, l.H*l.W, u/bands, y0, y1)
	}
}

// toRows converts rows [y0, y1) of a block.
func (l *Layout) toRows(level cpu.Level, y, src []float32, hw, b, y0, y1 int) {
	n := min(Lanes, l.C-b*Lanes)
	dst := y[b*Lanes*hw:]
	if l.Flat() {
		vec.TransposeF32(level, dst[y0*l.W:], hw, src[l.At(b, y0, 0):], Lanes, (y1-y0)*l.W, n)
		return
	}
	for r := y0; r < y1; r++ {
		vec.TransposeF32(level, dst[r*l.W:], hw, src[l.At(b, r, 0):], Lanes, l.W, n)
	}
}

// copyPixels copies n pixels of a block, which are to and from elements apart.
func copyPixels(dst, src []float32, n, to, from int) {
	if n <= 0 {
		return
	}
	_, _ = dst[(n-1)*to+Lanes-1], src[(n-1)*from+Lanes-1]
	for i := range n {
		d, s := (*[Lanes / 2]uint64)(at(ptr(dst), i*to)), (*[Lanes / 2]uint64)(at(ptr(src), i*from))
		for k := 0; k < Lanes/2; k += 4 { // an assignment of arrays calls memmove
			v0, v1, v2, v3 := s[k], s[k+1], s[k+2], s[k+3]
			d[k], d[k+1], d[k+2], d[k+3] = v0, v1, v2, v3
		}
	}
}
