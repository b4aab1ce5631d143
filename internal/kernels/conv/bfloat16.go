package conv

import (
	"math"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/memory"
)

// Rounded is a [Direct] convolution whose operands are rounded to bfloat16. Products are exact, and
// sums are float32 in the order of VDPBF16PS, see package gemm: all levels give the same bits.
//
// The input is rounded in strips, [C/8][rows][columns][8], that all panels of outputs read. The
// weights are [C/8][kh][kw][4][outputs of the panel][2].
type Rounded struct {
	geometry // without the data of its weights
	data     []uint16
}

// geometry is a Direct without its methods, which read the data of the weights.
type geometry Direct

const (
	octet = 8 // channels
	// maxPairs limits a tile call to about 45 µs: pairs of channels times taps.
	maxPairs = 4096
	// stripBytes is the largest size of a strip that has more than one row.
	stripBytes = 128 << 10
)

// Rounded returns the convolution with rounded operands, or nil if it would not be faster.
func (d *Direct) Rounded(level cpu.Level) *Rounded {
	if cpu.UsesBF16(level) != cpu.BF16Pairs || d.Weights.each > 0 { // blocks with several groups would multiply zeros
		return nil
	}
	return d.rounded(level)
}

// Rounded is [Direct.Rounded].
func (d *PermutedPointwise) Rounded(level cpu.Level) *Rounded {
	if cpu.UsesBF16(level) != cpu.BF16Pairs {
		return nil
	}
	return d.rounded(level)
}

func (d *PermutedPointwise) rounded(level cpu.Level) *Rounded {
	r := d.Direct()
	if r == nil { // the groups would multiply zeros
		return nil
	}
	return r.rounded(level)
}

func (d *Direct) rounded(level cpu.Level) *Rounded {
	w := *d.Weights
	w.Data, w.panels = nil, make([]panel, len(d.Weights.panels))
	taps, size := w.KH*w.KW, 0
	for i, p := range d.Weights.panels {
		p.cb *= Lanes / octet
		p.cbs = min(p.cbs*Lanes/octet, tiles(w.Cin, octet)-p.cb)
		p.offset = size
		if p.cbs*taps*octet/2 > maxPairs {
			return nil
		}
		size += p.cbs * taps * octet * p.blocks * Lanes
		w.panels[i] = p
	}
	r := &Rounded{geometry: geometry(*d), data: memory.Slice[uint16](size)}
	r.Weights = &w
	for i := range w.panels {
		p := &w.panels[i]
		rows := d.Weights.Data[d.Weights.panels[i].offset:]
		part := octet * p.blocks * Lanes
		for o := range p.cbs {
			for t := range taps {
				roundPairs(level, r.data[p.offset+(o*taps+t)*part:][:part],
					rows[((o/2*taps+t)*2+o%2)*part:][:part], p.blocks)
			}
		}
	}
	return r
}

// roundPairs interleaves and rounds pairs of rows of weights.
func roundPairs(level cpu.Level, dst []uint16, rows []float32, blocks int) {
	if blocks == 2 {
		gemm.RoundPairs(level, dst, rows)
		return
	}
	for i := range dst {
		dst[i] = vec.RoundBF16(rows[(i/(2*Lanes)*2+i%2)*Lanes+i/2%Lanes])
	}
}

// strip is a rounded part of the input.
type strip struct {
	data  []uint16
	cols  int // pixels in a row
	octet int // distance in elements
	run   uint64
	band  int // of the run
}

// roundedRuns is the number of runs of rounded convolutions.
var roundedRuns atomic.Uint64

var stripPool = sync.Pool{New: func() any { return new(strip) }}

// pointwise reports whether an output pixel reads one input pixel. Strips then have no others.
func (d *Rounded) pointwise() bool { return d.Weights.KH*d.Weights.KW == 1 }

// window returns the size of the strip for rows×cols outputs.
func (d *Rounded) window(rows, cols int) (h, w int) {
	if d.pointwise() {
		return rows, cols
	}
	return (rows-1)*d.StrideH + (d.Weights.KH-1)*d.DilationH + 1, (cols-1)*d.StrideW + (d.Weights.KW-1)*d.DilationW + 1
}

// round rounds the input of the rows×cols outputs from y, x on.
func (d *Rounded) round(level cpu.Level, s *strip, data []float32, y, x, rows, cols int) {
	h, w := d.window(rows, cols)
	s.cols, s.octet = w, h*w*octet+32 // keep the distances off powers of two
	if n := d.In.Blocks() * 2 * s.octet; len(s.data) < n {
		s.data = memory.Slice[uint16](n)
	}
	sh, sw := 1, 1
	if d.pointwise() {
		sh, sw = d.StrideH, d.StrideW
	}
	for cb := range d.In.Blocks() {
		mask := uint32(1)<<min(Lanes, d.In.C-cb*Lanes) - 1
		for r := range h {
			from := data[d.In.At(cb, y*d.StrideH-d.Top+r*sh, x*d.StrideW-d.Left):]
			roundOctets(level, s.data[2*cb*s.octet+r*w*octet:], from, w, sw*Lanes, s.octet, mask)
		}
	}
}

// roundOctetsGeneric rounds n pixels of 16 channels, of stride step, to two octets of channels, of
// stride next. Channels that are not in mask become zero, and subnormal numbers too, as
// VCVTNE2PS2BF16 makes them.
func roundOctetsGeneric(dst []uint16, x []float32, n, step, next int, mask uint32) {
	for p := range n {
		for j, v := range x[p*step:][:Lanes] {
			b := math.Float32bits(v)
			if mask>>j&1 == 0 {
				b = 0
			} else if b&0x7f800000 == 0 {
				b &= 0x80000000
			}
			dst[j/octet*next+p*octet+j%octet] = vec.RoundBF16(math.Float32frombits(b))
		}
	}
}

// bands divides an image into rectangles of outputs, and the panels into groups.
type bands struct {
	h, w         int  // of the image
	down, across int  // numbers of bands
	groups       int  // of panels
	joined       bool // the rows of a band are contiguous in the strip, the output and the residual
}

func (d *Rounded) bands(ep *BlockedEpilogue) bands {
	b := bands{h: d.Out.H, w: d.Out.W}
	b.joined = d.pointwise() && d.Out.Flat() && (ep.Add == nil || ep.AddLayout.Flat())
	if b.joined && d.In.Flat() && d.StrideH == 1 && d.StrideW == 1 && d.In.W == d.Out.W {
		b.h, b.w = 1, b.h*b.w
	}
	channels := d.In.Blocks() * Lanes * 2 // bytes
	rows, cols := b.h, b.w
	for rows > 1 {
		h, w := d.window(rows, cols)
		if h*w*channels <= stripBytes {
			break
		}
		rows = (rows + 1) / 2
	}
	if h, w := d.window(rows, cols); h*w*channels > stripBytes {
		cols = max(1, stripBytes/(h*channels*d.StrideW)/TilePixels) * TilePixels
		b.joined = b.joined && rows == 1
	}
	const enough = 32 // units for the threads
	b.down, b.across = tiles(b.h, rows), tiles(b.w, cols)
	b.groups = min(len(d.Weights.panels), tiles(enough, b.down*b.across))
	return b
}

// Run is [Direct.Run].
func (d *Rounded) Run(level cpu.Level, par gemm.Par, y, x []float32, ep *BlockedEpilogue) {
	d.In.check("input", x)
	d.Out.check("output", y)
	if ep.Add != nil {
		ep.AddLayout.check("residual", ep.Add)
	}
	b := d.bands(ep)
	n, panels := b.down*b.across*b.groups, len(d.Weights.panels)
	var run uint64 // a thread rounds a band once in a run
	begin := func(lo, hi int) { run = roundedRuns.Add(1) }
	work := func(lo, hi int) {
		s := stripPool.Get().(*strip)
		defer stripPool.Put(s)
		for u := lo; u < hi; {
			i, g := u/b.groups, u%b.groups
			k := min(hi-u, b.groups-g)
			r0, r1 := b.h*(i/b.across)/b.down, b.h*(i/b.across+1)/b.down
			c0, c1 := b.w*(i%b.across)/b.across, b.w*(i%b.across+1)/b.across
			if s.run != run || s.band != i {
				d.round(level, s, x, r0, c0, r1-r0, c1-c0)
				s.run, s.band = run, i
			}
			for p := panels * g / b.groups; p < panels*(g+k)/b.groups; p++ {
				d.panel(level, s, y, ep, p, r0, c0, r1-r0, c1-c0, b.joined)
			}
			u += k
		}
	}
	if par == nil {
		par = func(n int, fn func(lo, hi int)) { fn(0, n) }
	}
	par(1, begin)
	par(n, work)
}

// args returns the tile arguments of a panel, except for the pointers to input and output.
func (d *Rounded) args(s *strip, p *panel, ep *BlockedEpilogue) (t tileArgs) {
	w := d.Weights
	t.cb, t.kh, t.kw = p.cbs, w.KH, w.KW
	t.pixel = octet * 2
	if !d.pointwise() {
		t.pixel *= d.StrideW
	}
	t.dkw = d.DilationW * octet * 2
	t.dkh = d.DilationH*s.cols*octet*2 - t.kw*t.dkw
	t.dcb = s.octet*2 - t.kh*d.DilationH*s.cols*octet*2
	t.b, t.bias = unsafe.Pointer(&d.data[p.offset]), at(ptr(w.Bias), p.block*Lanes)
	t.act = uint64(ep.Act)
	t.lo, t.hi = ep.bounds()
	t.prefetch = uintptr(t.b)
	return t
}

// panel computes a panel of rows×cols outputs from y0, x0 on.
func (d *Rounded) panel(level cpu.Level, s *strip, y []float32, ep *BlockedEpilogue,
	pi, y0, x0, rows, cols int, joined bool) {
	p := &d.Weights.panels[pi]
	t := d.args(s, p, ep)
	t.ldc, t.ldadd = d.Out.Block*4, ep.AddLayout.Block*4
	n, step := cols, rows // pixels of a row, and rows
	if joined {
		n, step = rows*cols, 1
	}
	// Prefetch the next panel's weights, spread evenly over the calls for this panel.
	calls := max(1, step*tiles(n, TilePixels))
	lines := min(4, (4*p.blocks+calls-1)/calls)
	most := d.most(p)
	ahead := p.offset + p.cbs*t.kh*t.kw*octet*p.blocks*Lanes
	for r := range step {
		from := s.data[p.cb*s.octet:]
		if !d.pointwise() {
			from = from[r*d.StrideH*s.cols*octet:]
		} else {
			from = from[r*cols*octet:]
		}
		cover(n, most, func(a, pixels, times int) {
			t.a = unsafe.Add(unsafe.Pointer(&from[0]), a*t.pixel)
			t.c = at(ptr(y), d.Out.At(p.block, y0+r, x0+a))
			if ep.Add != nil {
				t.add, t.addStep = at(ptr(ep.Add), ep.AddLayout.At(p.block, y0+r, x0+a)), pixels*Lanes*4
			}
			t.prefetchStep = 0
			if ahead < len(d.data) {
				t.prefetch, t.prefetchStep = uintptr(unsafe.Pointer(&d.data[ahead])), lines*64
				ahead += times * t.cb * t.kh * t.kw * lines * 32
			}
			t.run(level, pixels, p.blocks, times)
		})
		if ep.finishes() {
			ep.finish(level, &d.Out, y, p.block, p.block, p.blocks, y0+r, x0, x0+n)
		}
	}
}

// pairHeights lists the numbers of pixels of the tiles, in the order in which cover tries them.
var pairHeights = [...]int{14, 10, 7, 4, 2, 1}

// cover calls fn for tiles from pixel a on that cover n pixels, at most most at once. The last
// ones may overlap.
func cover(n, most int, fn func(a, pixels, times int)) {
	for a := 0; a < n; {
		rest, k := n-a, 0
		for _, h := range pairHeights {
			if h >= rest && h <= n || k == 0 && h <= rest {
				k = h
			}
		}
		a = min(a, n-k)
		times := min(max(1, rest/k), most)
		fn(a, k, times)
		a += k * times
	}
}

// most returns the number of tiles of a panel that one call computes.
func (d *Rounded) most(p *panel) int {
	return maxPairs / (p.cbs * d.Weights.KH * d.Weights.KW * octet / 2)
}

// run computes times adjacent tiles.
func (t *tileArgs) run(level cpu.Level, pixels, blocks, times int) {
	t.times, t.aStep, t.cStep = times, pixels*t.pixel, pixels*Lanes*4
	runPairs(level, pixels, blocks, t)
}

// pairTilesGeneric computes the tiles of a call.
func pairTilesGeneric(pixels, blocks int, t *tileArgs) {
	for i := range t.times {
		u := t.nth(i)
		pairTileGeneric(pixels, blocks, &u)
	}
}

// pairTileGeneric computes a tile. A step multiplies the four pairs of an octet.
//
//	for p := range pixels {
//		for j := range 16*blocks {
//			s := bias[j]
//			for cb, kh, kw, k { // k counts pairs
//				s += a[p][cb][kh][kw][k][1] * b[cb][kh][kw][k][j][1]
//				s += a[p][cb][kh][kw][k][0] * b[cb][kh][kw][k][j][0]
//			}
//			c[j/16][p][j%16] = act(s + add[j/16][p][j%16])
//		}
//	}
func pairTileGeneric(pixels, blocks int, t *tileArgs) {
	for p := range pixels {
		var sums [2 * Lanes]float32
		s := sums[:blocks*Lanes]
		copy(s, unsafe.Slice((*float32)(t.bias), len(s)))
		a, b := p*t.pixel, 0
		for range t.cb {
			for range t.kh {
				for range t.kw {
					x := (*[octet]uint16)(unsafe.Add(t.a, a))
					for k := 0; k < octet; k += 2 {
						w := unsafe.Slice((*uint16)(unsafe.Add(t.b, b)), 2*len(s))
						for j, v := range s {
							s[j] = gemm.AddPair(v, x[k], x[k+1], w[2*j], w[2*j+1])
						}
						b += len(w) * 2
					}
					a += t.dkw
				}
				a += t.dkh
			}
			a += t.dcb
		}
		t.finish(s, p)
	}
}

// roundedRows computes rows of a rounded convolution.
type roundedRows struct{ *Rounded }

func (d roundedRows) layout() Layout               { return d.Out }
func (d roundedRows) check(x []float32)            { d.In.check("input", x) }
func (d roundedRows) count() int                   { return len(d.Weights.panels) }
func (d roundedRows) at(p int) (block, blocks int) { return directRows{(*Direct)(&d.geometry)}.at(p) }

func (d roundedRows) row(level cpu.Level, c unsafe.Pointer, ldc int, x []float32, pi, y int,
	ep *BlockedEpilogue, r *ring) {
	s := &r.strip
	d.round(level, s, x, y, 0, 1, d.Out.W)
	p := &d.Weights.panels[pi]
	t := d.args(s, p, ep)
	t.ldc = ldc
	cover(d.Out.W, d.most(p), func(a, pixels, times int) {
		t.a = unsafe.Add(unsafe.Pointer(&s.data[p.cb*s.octet]), a*t.pixel)
		t.c = at(c, a*Lanes)
		t.run(level, pixels, p.blocks, times)
	})
}

// Rounded returns the convolution with transformed operands that are rounded to bfloat16, or nil if
// it would not be faster. The error is 1.5 to 1.7 times that of [Rounded] for 2×2 outputs, but 4 to
// 5 times for 4×4, which stay float32.
func (d *Winograd) Rounded(level cpu.Level) *Winograd {
	if cpu.UsesBF16(level) != cpu.BF16Pairs || d.Weights.M != 2 || tiles(d.Weights.Cin, Lanes)*Lanes/2 > maxPairs {
		return nil
	}
	return d.rounded(level)
}

func (d *Winograd) rounded(level cpu.Level) *Winograd {
	w := *d.Weights
	w.rounded = memory.Slice[uint16](len(w.Data))
	gemm.RoundPairs(level, w.rounded, w.Data)
	w.Data = nil
	c := *d
	c.Weights = &w
	return &c
}

// roundedLen returns the number of elements of the rounded input of n tiles at one point.
func (r *winogradRun) roundedLen(n int) int {
	if r.Weights.rounded == nil {
		return 0
	}
	return (r.In.Blocks()*n*Lanes/octet + 4) * octet
}

// round rounds tiles [lo, hi) of a block of channels of V to [xi][C/8][tile][8].
func (r *winogradRun) round(cb, lo, hi int) {
	n := r.t1 - r.t0
	size := r.roundedLen(n)
	mask := uint32(1)<<min(Lanes, r.In.C-cb*Lanes) - 1
	for xi := range (r.Weights.M + 2) * (r.Weights.M + 2) {
		roundOctets(r.level, r.b.rounded[xi*size+cb*n*Lanes+lo*octet:], r.b.v[xi*r.vx+(cb*n+lo)*Lanes:], hi-lo, Lanes,
			n*octet, mask)
	}
}

// noBias is the zero bias of GEMMs whose output transform adds the bias.
var noBias [2 * Lanes]float32

// multiplyRounded is multiply for rounded operands. The weights begin at index at.
func (r *winogradRun) multiplyRounded(xi, p, at int) {
	n, cbs, data := r.t1-r.t0, r.In.Blocks(), r.Weights.rounded
	t := tileArgs{cb: cbs * Lanes / octet, kh: 1, kw: 1, pixel: octet * 2, dcb: n * octet * 2, ldc: n * Lanes * 4,
		b: unsafe.Pointer(&data[at]), bias: unsafe.Pointer(&noBias), prefetch: uintptr(unsafe.Pointer(&data[at]))}
	count := tiles(n, TilePixels)
	lines := min(4, (8+count-1)/count)
	ahead := at + cbs*Lanes*2*Lanes
	cover(n, maxPairs/(cbs*Lanes/2), func(a, pixels, times int) {
		t.a = unsafe.Pointer(&r.b.rounded[xi*r.roundedLen(n)+a*octet])
		t.c = unsafe.Pointer(elem(r.b.m, xi*r.mx+(2*p*n+a)*Lanes))
		if t.prefetchStep = 0; ahead < len(data) {
			t.prefetch, t.prefetchStep = uintptr(unsafe.Pointer(&data[ahead])), lines*64
			ahead += times * t.cb * lines * 32
		}
		t.run(r.level, pixels, 2, times)
	})
}
