package conv

import (
	"math"
	"slices"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/memory"
)

// BlockedEpilogue is applied to a sum in NCHW16c before it is stored, in the order of the fields.
// The bias is part of the weights.
type BlockedEpilogue struct {
	Add       []float32 // residual in AddLayout with C, H and W of the output, or nil; must not overlap the output
	AddLayout Layout
	Act       gemm.Activation
	Lo, Hi    float32 // of gemm.Clip
	// Map is a function of every element and its channel, such as Silu, or nil. It must work in
	// place and for any number of pixels of a block of channels.
	Map func(dst, src []float32, block int)
	// Last is as Add, but added to the result of Map.
	Last []float32
	// Channels is the number of channels of the output beyond which NaN becomes 0: a convolution
	// makes NaN of infinite inputs and the zero weights of padding channels. If it is 0, nothing
	// reads these.
	Channels int
	// Threads is the number of threads that share an image, 0 if it is not known. If it is 1, each
	// thread computes adjacent units of one or several images.
	Threads int
}

// finishes reports whether finish has to be called.
func (e *BlockedEpilogue) finishes() bool { return e.Map != nil || e.Last != nil || e.Channels > 0 }

// finish applies Map to pixels [a, b) of a row, just computed, in some blocks, adds Last, and makes
// padding channels finite. The first one of the blocks is block at of y.
func (e *BlockedEpilogue) finish(level cpu.Level, out *Layout, y []float32, at, block, blocks, row, a, b int) {
	for i := range blocks {
		d := y[out.At(at+i, row, a):][:(b-a)*Lanes]
		if e.Map != nil {
			e.Map(d, d, block+i)
		}
		if e.Last != nil {
			vec.AddF32(level, d, d, e.Last[e.AddLayout.At(block+i, row, a):])
		}
		if inside := e.Channels - (block+i)*Lanes; e.Channels > 0 && inside < Lanes {
			finite(level, d, inside)
		}
	}
}

// finite makes channels from the given one on of pixels of a block 0 where they are NaN.
func finite(level cpu.Level, pixels []float32, from int) {
	if s := vec.SumF32(level, pixels); s == s {
		return
	}
	for i, v := range pixels {
		if i%Lanes >= from && v != v {
			pixels[i] = 0
		}
	}
}

// bounds returns the clipping range of the activation.
func (e *BlockedEpilogue) bounds() (lo, hi float32) {
	switch e.Act {
	case gemm.Relu:
		return 0, float32(math.Inf(1))
	case gemm.Clip:
		return e.Lo, e.Hi
	}
	return float32(math.Inf(-1)), float32(math.Inf(1))
}

// Weights are the packed weights of [Direct] and [NCHWInput]: panels of 32 output channels (the
// last of 16 if the number of blocks is odd), each [input block][kh][kw][16][outputs of the panel].
// Weights of padding channels are zero.
type Weights struct {
	Cin, Cout, KH, KW int
	Data              []float32 // 64-byte aligned
	Bias              []float32 // whole blocks
	panels            []panel
	each, outs        int // input and output channels of a group, if blocks have several groups; otherwise 0
}

// panel is one or two output blocks, with the range of input blocks that they read.
type panel struct {
	block, blocks int
	cb, cbs       int
	offset        int // into Data
	idle          int // groups of four channels at the end of the input blocks that have no weights
}

// Bytes returns the size of the packed weights.
func (p *Weights) Bytes() int64 { return int64(len(p.Data)+len(p.Bias)) * 4 }

// PackWeights packs w of shape (cout, cin/group, kh, kw) for [Direct]. bias may be nil. With
// groups, a panel reads only the input blocks with channels of its groups; the weights of other
// channels in these blocks are zero.
func PackWeights(level cpu.Level, w, bias []float32, cin, cout, group, kh, kw int) *Weights {
	p := &Weights{Cin: cin, Cout: cout, KH: kh, KW: kw}
	blocks := tiles(cout, Lanes)
	p.Bias = memory.Slice[float32](blocks * Lanes)
	copy(p.Bias, bias)
	cg, og := cin/group, cout/group
	if group > 1 && (cg%Lanes != 0 || og%Lanes != 0) {
		p.each, p.outs = cg, og
	}
	inputs := func(block int) (lo, hi int) { // input blocks that an output block reads
		first, last := block*Lanes/og, (min(cout, (block+1)*Lanes)-1)/og
		return first * cg / Lanes, tiles((last+1)*cg, Lanes)
	}
	size := 0
	for b := 0; b < blocks; {
		lo, hi := inputs(b)
		n := panel{block: b, blocks: 1, cb: lo, cbs: hi - lo, offset: size}
		if b+1 < blocks {
			if l, h := inputs(b + 1); l == lo && h == hi {
				n.blocks = 2
			}
		}
		size += n.cbs * kh * kw * Lanes * n.blocks * Lanes
		b += n.blocks
		used := ((min(cout, b*Lanes)-1)/og + 1) * cg
		n.idle = (hi*Lanes - used) / 4
		p.panels = append(p.panels, n)
	}
	p.Data = memory.Slice[float32](size)
	taps := kh * kw
	for _, n := range p.panels {
		width := n.blocks * Lanes
		if group == 1 {
			for j := 0; j < min(width, cout-n.block*Lanes); j += Lanes {
				p.packBlock(level, p.Data[n.offset+j:], width, w, n.block*Lanes+j)
			}
			continue
		}
		for j := range min(width, cout-n.block*Lanes) {
			o := n.block*Lanes + j
			c0 := o / og * cg // first input channel of the group
			for c := range cg {
				in := c0 + c - n.cb*Lanes
				d := p.Data[n.offset+(in/Lanes*taps*Lanes+in%Lanes)*width+j:]
				for t, v := range w[(o*cg+c)*taps:][:taps] {
					d[t*Lanes*width] = v
				}
			}
		}
	}
	return p
}

// packBlock packs the block of output channels from o on, of a convolution without groups.
func (p *Weights) packBlock(level cpu.Level, dst []float32, width int, w []float32, o int) {
	taps, n := p.KH*p.KW, min(Lanes, p.Cout-o)
	run := max(1, 128/taps) // channels at a time
	rows := make([]float32, run*taps*Lanes)
	for c := 0; c < p.Cin; c += run {
		k := min(run, p.Cin-c)
		vec.TransposeF32(level, rows, Lanes, w[(o*p.Cin+c)*taps:], p.Cin*taps, n, k*taps)
		for i := range k {
			in := c + i
			d := dst[(in/Lanes*taps*Lanes+in%Lanes)*width:]
			for t := range taps {
				*(*[Lanes]float32)(d[t*Lanes*width:]) = [Lanes]float32(rows[(i*taps+t)*Lanes:])
			}
		}
	}
}

// Direct is a direct convolution over NCHW16c with any kernel, stride, dilation and group. The
// border of the input must include the padding.
type Direct struct {
	In, Out              Layout
	StrideH, StrideW     int
	DilationH, DilationW int
	Top, Left            int // padding
	Weights              *Weights
}

// Check validates the layouts against the weights; call it once per shape.
func (d *Direct) Check() error {
	w := d.Weights
	if d.In.C != w.Cin || d.Out.C != w.Cout {
		return fail.Errorf("layouts of %d and %d channels do not fit weights from %d to %d", d.In.C,
			d.Out.C, w.Cin, w.Cout)
	}
	return checkWindow(&d.In, &d.Out, w.KH, w.KW, d.StrideH, d.StrideW, d.DilationH, d.DilationW, d.Top, d.Left)
}

// checkWindow returns an error if a window reads beyond the border.
func checkWindow(in, out *Layout, kh, kw, sh, sw, dh, dw, top, left int) error {
	if top > in.Top || left > in.Left || (out.H-1)*sh-top+(kh-1)*dh >= in.H+in.Bottom ||
		(out.W-1)*sw-left+(kw-1)*dw >= in.W+in.Right {
		return fail.Errorf("an input of %d×%d with border %d, %d, %d, %d is too small for %d×%d outputs of a %d×%d "+
			"window with stride %d, %d, dilation %d, %d and padding %d, %d",
			in.H, in.W, in.Top, in.Left, in.Bottom, in.Right, out.H, out.W, kh, kw, sh, sw, dh, dw, top, left)
	}
	return nil
}

// maxSteps limits one tile call to about 25 µs: input channels times taps.
const maxSteps = 4096

// steps returns the most steps of one tile call. Each tile of an image reads the weights of a panel
// for these steps, which should stay in the second-level cache: on AVX2 they take 128 KB.
func steps(level cpu.Level) int {
	if level == cpu.AVX2 {
		return maxSteps / 4
	}
	return maxSteps
}

// flatGroup is the number of tiles in a unit of work that may span rows.
const flatGroup = 4

// Run computes one image. par distributes panels of output channels and rows; if it is nil, one
// call computes everything. The error is at most (K+2)·2⁻²⁴·Σ|x||w| with K = cin/group·kh·kw.
func (d *Direct) Run(level cpu.Level, par gemm.Par, y, x []float32, ep *BlockedEpilogue) {
	d.In.check("input", x)
	d.Out.check("output", y)
	if ep.Add != nil {
		ep.AddLayout.check("residual", ep.Add)
	}
	if n := d.parts(ep); n > 1 {
		d.pixel(level, par, y, x, ep, n)
		return
	}
	w := d.Weights
	rows := newRows(&d.In, &d.Out, ep, len(w.panels), len(w.Data), w.KH*w.KW == 1 && d.StrideH == 1 &&
		d.StrideW == 1 && d.Top == 0 && d.Left == 0)
	rows.panels(par, len(w.panels), func(p, g0, g1 int) { d.panel(level, y, x, ep, p, &rows, g0, g1) })
}

// rows divides an image into units of work: whole rows of pixels, or parts of one long row, which
// is an image of one row or, for a 1×1 convolution without borders, all pixels.
type rows struct {
	units, width int // units of an image; pixels of a row
	flat         bool
	byPixels     bool // threads divide the pixels rather than the panels
	group        int  // units that all panels compute before the next ones, if byPixels
}

// newRows divides the output into units. weights is the number of weights of all panels, and
// pointwise is set if an output pixel reads only the input pixel at its coordinates. With few
// panels there are more units. Threads divide the larger of images and weights, so that each reads
// only its part from the caches of others.
func newRows(in, out *Layout, ep *BlockedEpilogue, panels, weights int, pointwise bool) rows {
	pixels := out.H * out.W
	r := rows{units: out.H, width: out.W}
	pointwise = pointwise && in.H == out.H && in.W == out.W && in.Flat() && out.Flat() &&
		(ep.Add == nil || ep.AddLayout.Flat())
	if r.flat = pointwise || out.H == 1; r.flat {
		enough := max(16, 4*ep.Threads)
		n := tiles(pixels, TilePixels)
		r.units, r.width = min(n, max(tiles(n, flatGroup), tiles(enough, panels))), pixels
	}
	r.byPixels = weights <= in.C*in.H*in.W+out.C*pixels && (r.flat || ep.Threads != 1)
	r.group = max(1, cachedInput*r.units/(in.C*in.H*in.W))
	return r
}

// cachedInput is the number of elements of the input that stay in the second-level cache, with the
// weights of a panel, while all panels read them.
const cachedInput = 64 << 10

// TilePixels is the width of the largest tile of any level.
const TilePixels = 14

// panels calls fn for units [g0, g1) of every panel. par may be nil.
func (r *rows) panels(par gemm.Par, panels int, fn func(p, g0, g1 int)) {
	work := func(lo, hi int) { byPanels(lo, hi, r.units, fn) }
	if r.byPixels {
		work = func(lo, hi int) {
			for ; lo < hi; lo += r.group * panels {
				byPixels(lo, min(hi, lo+r.group*panels), panels, fn)
			}
		}
	}
	if par == nil {
		work(0, panels*r.units)
	} else {
		par(panels*r.units, work)
	}
}

// byPanels calls fn for every panel p with the units [g0, g1) of an image for which p*units+g is in
// [lo, hi).
func byPanels(lo, hi, units int, fn func(p, g0, g1 int)) {
	for lo < hi {
		p, g := lo/units, lo%units
		n := min(hi-lo, units-g)
		fn(p, g, g+n)
		lo += n
	}
}

// byPixels calls fn for every panel p with the units [g0, g1) of an image for which g*panels+p is
// in [lo, hi).
func byPixels(lo, hi, panels int, fn func(p, g0, g1 int)) {
	for p := range panels {
		if g0, g1 := tiles(max(0, lo-p), panels), tiles(max(0, hi-p), panels); g0 < g1 {
			fn(p, g0, g1)
		}
	}
}

// unit returns the row and the pixels [x0, x1) of unit g.
func (r *rows) unit(g int) (row, x0, x1 int) {
	if r.flat {
		n := tiles(r.width, TilePixels) // units consist of whole tiles
		return 0, r.width * (n * g / r.units) / n, r.width * (n * (g + 1) / r.units) / n
	}
	return g, 0, r.width
}

// tiles calls fn for tiles of at most most pixels [a, b) of a row, in units [g0, g1). After each
// unit it finishes some blocks of y with ep, which may be nil.
func (r *rows) tiles(level cpu.Level, g0, g1, most int, fn func(row, a, b int), ep *BlockedEpilogue, out *Layout,
	y []float32, block, blocks int) {
	for g := g0; g < g1; g++ {
		row, x0, x1 := r.unit(g)
		for i := range tiles(x1-x0, most) {
			a, b := split(x1-x0, most, i)
			fn(row, x0+a, x0+b)
		}
		if ep != nil && ep.finishes() {
			ep.finish(level, out, y, block, block, blocks, row, x0, x1)
		}
	}
}

// Scales reports whether Scaled supports the convolution: one of a single tap, without groups.
func (d *Direct) Scales() bool {
	w := d.Weights
	return w.KH*w.KW == 1 && !slices.ContainsFunc(w.panels, func(p panel) bool { return p.cbs != d.In.Blocks() })
}

// scaledBlocks is the number of blocks of input channels that one thread scales at a time.
const scaledBlocks = 16

// Scaled returns the convolution of an image whose input channels are multiplied by scale, in
// blocks that are step elements apart. data holds its weights and is as long as those of d.
func (d *Direct) Scaled(level cpu.Level, par gemm.Par, data, scale []float32, step int) *Direct {
	blocks := d.In.Blocks()
	units := tiles(blocks, scaledBlocks) // of a panel
	par(len(d.Weights.panels)*units, func(lo, hi int) {
		for u := lo; u < hi; u++ {
			first := u % units * scaledBlocks
			for cb := first; cb < min(first+scaledBlocks, blocks); cb++ {
				d.scale(level, data, scale[cb*step:][:Lanes], u/units, cb*Lanes)
			}
		}
	})
	return d.With(data)
}

// scale writes the weights of a panel for input channels from channel on, multiplied by scale.
func (d *Direct) scale(level cpu.Level, data, scale []float32, panel, channel int) {
	p := &d.Weights.panels[panel]
	width := p.blocks * Lanes
	at, n := p.offset+channel*width, len(scale)*width
	clear(data[at:][:n])
	vec.AxpyRowsF32(level, data[at:][:n], width, d.Weights.Data[at:], width, width, scale)
}

// ScaleChannels writes to data the weights for input channels from channel on, multiplied by scale.
func (d *Direct) ScaleChannels(level cpu.Level, data, scale []float32, channel int) {
	for p := range d.Weights.panels {
		d.scale(level, data, scale, p, channel)
	}
}

// With returns the convolution with other weights, packed as those of d.
func (d *Direct) With(data []float32) *Direct {
	c, w := *d, *d.Weights
	w.Data, c.Weights = data, &w
	return &c
}

// To returns the convolution with another output layout of the same size.
func (d *Direct) To(out Layout) *Direct {
	c := *d
	c.Out = out
	return &c
}

// args returns the tile arguments of a panel, except for the pointers to input and output.
func (d *Direct) args(p *panel) (t tileArgs) {
	w := d.Weights
	t.kh, t.kw = w.KH, w.KW
	t.pixel = d.StrideW * Lanes * 4
	t.dkw = (d.DilationW - 1) * Lanes * 4
	t.dkh = (d.DilationH*d.In.Row - w.KW*d.DilationW*Lanes) * 4
	t.dcb = (d.In.Block - w.KH*d.DilationH*d.In.Row) * 4
	t.bStep = p.blocks * Lanes * 4
	t.half = w.half(p)
	return t
}

// half returns 1 if the last eight output channels of a panel are padding.
func (w *Weights) half(p *panel) uint64 {
	return uint64(tern((p.block+p.blocks)*Lanes-w.Cout >= Lanes/2, 1, 0))
}

func (d *Direct) panel(level cpu.Level, y, x []float32, ep *BlockedEpilogue, pi int, rows *rows, g0, g1 int) {
	w := d.Weights
	p := &w.panels[pi]
	most := tilePixels(level)
	perBlock := w.KH * w.KW * Lanes
	chunks := tiles(p.cbs*perBlock, steps(level))
	chunks = min(chunks, p.cbs)
	t := d.args(p)
	t.ldc = d.Out.Block * 4
	var add = ptr(ep.Add)
	if ep.Add != nil {
		t.ldadd = ep.AddLayout.Block * 4
	}
	t.lo, t.hi = ep.bounds()
	// Prefetch the next panel's weights, spread evenly over the calls for this panel.
	calls := max(1, (g1-g0)*tiles(rows.width, most)/tern(rows.flat, rows.units, 1))
	lines := min(4, (4*p.blocks+calls-1)/calls)
	size := p.cbs * perBlock * p.blocks * Lanes
	for c := range chunks {
		cb0, cb1 := p.cbs*c/chunks, p.cbs*(c+1)/chunks
		t.cb = cb1 - cb0
		t.b = at(ptr(w.Data), p.offset+cb0*perBlock*p.blocks*Lanes)
		t.bias, t.acc, t.act = at(ptr(w.Bias), p.block*Lanes), 0, 0
		last := c == chunks-1
		if c > 0 {
			t.acc = 1
		}
		var finish *BlockedEpilogue
		if last {
			t.act, finish = uint64(ep.Act), ep
			t.leaveOut(p.idle)
		}
		call := 0
		rows.tiles(level, g0, g1, most, func(row, a, b int) {
			t.a = at(ptr(x), d.In.At(p.cb+cb0, row*d.StrideH-d.Top, a*d.StrideW-d.Left))
			t.c = at(ptr(y), d.Out.At(p.block, row, a))
			t.add = nil
			if add != nil && last {
				t.add = at(add, ep.AddLayout.At(p.block, row, a))
			}
			t.prefetch, t.prefetchStep = uintptr(t.b), 0
			if done := call * t.cb * perBlock * lines * 4; pi+1 < len(w.panels) && done < size {
				t.prefetch, t.prefetchStep = address(w.Data, p.offset+size+done), lines*64
			}
			call++
			runTile(level, b-a, p.blocks, &t)
			if last && w.each > 0 {
				t.mend(level, b-a, p.block, p.blocks, w.Cout,
					func(pixel, o int) float32 { return d.sum(x, p, row, a+pixel, o) })
			}
		}, finish, &d.Out, y, p.block, p.blocks)
	}
}

// sum returns the sum of output channel o, of a panel, with its bias, over the channels of its
// group.
func (d *Direct) sum(x []float32, p *panel, row, column, o int) float32 {
	w := d.Weights
	width, v := p.blocks*Lanes, w.Bias[o]
	for in := o / w.outs * w.each; in < (o/w.outs+1)*w.each; in++ {
		for t := range w.KH * w.KW {
			ky, kx := t/w.KW, t%w.KW
			at := d.In.At(in/Lanes, row*d.StrideH-d.Top+ky*d.DilationH,
				column*d.StrideW-d.Left+kx*d.DilationW) + in%Lanes
			v += x[at] * w.Data[p.offset+(((in/Lanes-p.cb)*w.KH*w.KW+t)*Lanes+in%Lanes)*width+o-p.block*Lanes]
		}
	}
	return v
}

func tern(c bool, a, b int) int {
	if c {
		return a
	}
	return b
}
