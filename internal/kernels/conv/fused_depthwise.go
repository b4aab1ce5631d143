package conv

import (
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/memory"
)

// FusedDepthwise is a convolution fused with the depthwise convolution of its result, as at the
// start of inverted residual blocks (Sandler and others, "MobileNetV2: Inverted Residuals and
// Linear Bottlenecks", 2018). The wide intermediate result is never written to memory. For one
// panel of channels, a ring holds as many of its rows as the depthwise kernel is high, in the
// first-level cache; a new row replaces the oldest. It is immutable.
type FusedDepthwise struct {
	first rowMaker
	dw    *Depthwise
	mid   Layout    // layout of the row ring of one panel of two blocks: KH rows
	data  []float32 // weights of dw, turned
}

// rowMaker is a convolution of one image that can compute single rows of a panel of its output.
type rowMaker interface {
	layout() Layout // of its output
	check(x []float32)
	count() int
	at(panel int) (block, blocks int)
	// row writes row y of a panel to c, with memory of s. The blocks of c are ldc bytes apart.
	row(level cpu.Level, c unsafe.Pointer, ldc int, x []float32, panel, y int, ep *BlockedEpilogue, s *ring)
}

// NewFusedDepthwise fuses first, a *[Direct], *[PermutedPointwise], *[NCHWInput] or *[Rounded],
// with dw. Both must have passed their Check. Of first's output layout only the size is used.
func NewFusedDepthwise(first any, dw *Depthwise) (*FusedDepthwise, error) {
	r := &FusedDepthwise{dw: dw}
	switch f := first.(type) {
	case *Direct:
		if f.Weights.each > 0 {
			return nil, fail.Errorf("a block of channels has several groups, want one")
		}
		for _, p := range f.Weights.panels {
			if n := p.cbs * f.Weights.KH * f.Weights.KW * Lanes; n > maxSteps {
				return nil, fail.Errorf("sum of %d products, want at most %d", n, maxSteps)
			}
		}
		r.first = directRows{f}
	case *PermutedPointwise:
		for _, p := range f.panels {
			if len(p.deltas) > f.each {
				return nil, fail.Errorf("a block of channels has several groups, want one")
			}
			if len(p.deltas) > maxSteps {
				return nil, fail.Errorf("sum of %d products, want at most %d", len(p.deltas), maxSteps)
			}
		}
		r.first = permutedRows{f}
	case *NCHWInput:
		r.first = nchwInputRows{f}
	case *Rounded:
		r.first = roundedRows{f}
	default:
		return nil, fail.Errorf("unsupported convolution %T", first)
	}
	w, mid := dw.Weights, r.first.layout()
	if mid.C != dw.In.C || mid.H != dw.In.H || mid.W != dw.In.W {
		return nil, fail.Errorf("intermediate result is %d×%d×%d, the depthwise convolution reads %d×%d×%d", mid.C,
			mid.H, mid.W, dw.In.C, dw.In.H, dw.In.W)
	}
	if dw.DilationH != 1 {
		return nil, fail.Errorf("dilation of rows is %d, want 1", dw.DilationH)
	}
	r.mid = NewLayout(2*Lanes, w.KH, dw.In.W, 0, dw.In.Left, 0, dw.In.Right)
	r.data = w.turned()
	return r, nil
}

// Rounded returns the convolution with the operands of the first rounded to bfloat16, or nil if it
// would not be faster.
func (r *FusedDepthwise) Rounded(level cpu.Level) *FusedDepthwise {
	var first *Rounded
	switch f := r.first.(type) {
	case directRows:
		first = f.Direct.Rounded(level)
	case permutedRows:
		first = f.PermutedPointwise.Rounded(level)
	}
	if first == nil {
		return nil
	}
	c, err := NewFusedDepthwise(first, r.dw)
	if err != nil {
		return nil
	}
	return c
}

// FusedDepthwisePays reports whether [FusedDepthwise] is faster: the input of the depthwise
// convolution does not fit in the second-level cache, but the row ring does. Narrow images do not
// qualify, since their tiles cover several rows.
func FusedDepthwisePays(dw *Depthwise) bool {
	const cache = 1 << 20
	return dw.In.Len()*4 > cache && dw.In.W >= 28 && 2*dw.Weights.KH*dw.In.Row*4 <= cache/8
}

// Run computes one image. first must not have a residual. par distributes rows and panels; if it is
// nil, one call computes everything.
func (r *FusedDepthwise) Run(level cpu.Level, par gemm.Par, y, x []float32, first, ep *BlockedEpilogue) {
	r.first.check(x)
	r.dw.Out.check("output", y)
	if ep.Add != nil {
		ep.AddLayout.check("residual", ep.Add)
	}
	// A thread that starts within an image repeats rows that another thread computes too.
	h, again := r.dw.Out.H, max(0, r.dw.Weights.KH-r.dw.StrideH)
	bands := h
	if again > 0 {
		bands = min(h, max(2, h*r.dw.StrideH/(12*again)))
	}
	panels := r.first.count()
	units, equal := panels*bands, again > 0 && ep.Threads > 2
	if equal {
		units = min(4*ep.Threads, panels*h) // a thread computes some in turn, or helps another one
	}
	var run int64 // a thread does not continue with rows of another run
	begin := func(lo, hi int) { run = rings.Add(1) }
	work := func(lo, hi int) {
		s := ringPool.Get().(*ring)
		defer ringPool.Put(s)
		s.begin(&r.mid, panels, run)
		rows := func(p, a, b int) { r.panel(level, s, y, x, first, ep, p, a, b) }
		fn := func(p, b0, b1 int) { rows(p, h*b0/bands, h*b1/bands) }
		switch {
		case equal:
			r.rows(lo, hi, units, rows)
		case ep.Threads == 1:
			byPanels(lo, hi, bands, fn) // only a panel at the end of a call is divided
		default:
			byPixels(lo, hi, panels, fn)
		}
	}
	if par == nil {
		par = func(n int, fn func(lo, hi int)) { fn(0, n) }
	}
	par(1, begin)
	par(units, work)
}

// rows calls fn for the rows [a, b) of each panel that are in units [lo, hi) of an image. The units
// take equal time, panel by panel: a row of one block takes 0.6 times that of two.
func (r *FusedDepthwise) rows(lo, hi, units int, fn func(panel, a, b int)) {
	h := r.dw.Out.H
	cost := func(p int) int {
		_, blocks := r.first.at(p)
		return 1 + 2*blocks
	}
	all, before := 0, 0
	for p := range r.first.count() {
		all += cost(p) * h
	}
	for p := range r.first.count() {
		row := func(unit int) int { return max(0, min(h, (all*unit/units-before+cost(p)-1)/cost(p))) }
		if a, b := row(lo), row(hi); a < b {
			fn(p, a, b)
		}
		before += cost(p) * h
	}
}

// ring is the memory of a thread.
type ring struct {
	rows, window []float32
	strip        strip
	run          int64 // the run whose rows it has
	// of the panels: a thread that computes adjacent rows in several calls does not repeat those in
	// between
	ends []ringEnd
}

// ringEnd is where a panel continues: the row of the output after the last one, and the row of the
// intermediate result after the last one in the ring.
type ringEnd struct{ out, mid int }

// ringsBytes is the most memory for the rings of all panels, which stay in the second-level cache.
// If they take more, they share one.
const ringsBytes = 256 << 10

var (
	ringPool = sync.Pool{New: func() any { return new(ring) }}
	rings    atomic.Int64 // number of runs
)

// begin prepares the ring for calls of a run.
func (s *ring) begin(mid *Layout, panels int, run int64) {
	if s.run == run {
		return
	}
	size, count := mid.Len(), panels
	if size*panels*4 > ringsBytes {
		count = 1
	}
	if cap(s.rows) < size*count {
		s.rows = memory.Slice[float32](size * count)
	}
	s.run, s.rows, s.ends = run, s.rows[:size*count], slices.Grow(s.ends[:0], panels)[:panels]
	for i := range count {
		mid.ClearBorder(s.rows[i*size:][:size], 0, 2)
	}
	for i := range s.ends {
		s.ends[i].out = -1
	}
}

// of returns the rows of a panel, and forgets those of others if they share them.
func (s *ring) of(mid *Layout, panel int) []float32 {
	size := mid.Len()
	if len(s.rows) > size {
		return s.rows[panel*size:][:size]
	}
	for i := range s.ends {
		if i != panel {
			s.ends[i].out = -1
		}
	}
	return s.rows
}

// panel computes rows [lo, hi) of a panel of the output.
func (r *FusedDepthwise) panel(level cpu.Level, s *ring, y, x []float32, first, ep *BlockedEpilogue, p, lo, hi int) {
	d, w := r.dw, r.dw.Weights
	block, blocks := r.first.at(p)
	mid, taps := &r.mid, w.KH*w.KW*Lanes
	t := tileArgs{kh: w.KH, kw: w.KW, pixel: d.StrideW * Lanes * 4, dkw: d.DilationW * Lanes * 4,
		dkh: (mid.Row - w.KW*d.DilationW*Lanes) * 4}
	t.lo, t.hi = ep.bounds()
	rows, end := s.of(mid, p), &s.ends[p]
	next := lo*d.StrideH - d.Top // first row that is not in the ring
	if end.out == lo {
		next = end.mid
	}
	for row := lo; row < hi; row++ {
		top := row*d.StrideH - d.Top
		for next = max(next, top); next < top+w.KH; next++ {
			ring := (next + d.Top) % w.KH
			if next < 0 || next >= d.In.H {
				for b := range blocks {
					clear(rows[mid.At(b, ring, 0):][:mid.W*Lanes])
				}
				continue
			}
			r.first.row(level, at(ptr(rows), mid.At(0, ring, 0)), mid.Block*4, x, p, next, first, s)
			if first.finishes() {
				first.finish(level, mid, rows, 0, block, blocks, ring, 0, mid.W)
			}
		}
		turn := (top + d.Top) % w.KH
		for b := range blocks {
			cb := block + b
			t.b = at(ptr(r.data), (turn*d.Out.Blocks()+cb)*taps)
			t.bias = at(ptr(w.Bias), cb*Lanes)
			t.a = at(ptr(rows), mid.At(b, 0, -d.Left))
			t.c = at(ptr(y), d.Out.At(cb, row, 0))
			if ep.Add != nil {
				t.add = at(ptr(ep.Add), ep.AddLayout.At(cb, row, 0))
			}
			depthwiseRow(level, d.Out.W, &t)
			if ep.finishes() {
				ep.finish(level, &d.Out, y, cb, cb, 1, row, 0, d.Out.W)
			}
		}
	}
	*end = ringEnd{hi, next}
}

type directRows struct{ *Direct }

func (d directRows) layout() Layout    { return d.Out }
func (d directRows) check(x []float32) { d.In.check("input", x) }
func (d directRows) count() int        { return len(d.Weights.panels) }
func (d directRows) at(p int) (block, blocks int) {
	return d.Weights.panels[p].block, d.Weights.panels[p].blocks
}

func (d directRows) row(level cpu.Level, c unsafe.Pointer, ldc int, x []float32, pi, y int,
	ep *BlockedEpilogue, _ *ring) {
	w := d.Weights
	p := &w.panels[pi]
	t := d.args(p)
	t.cb, t.b, t.bias = p.cbs, at(ptr(w.Data), p.offset), at(ptr(w.Bias), p.block*Lanes)
	t.leaveOut(p.idle)
	t.ldc, t.act = ldc, uint64(ep.Act)
	t.lo, t.hi = ep.bounds()
	t.prefetch = uintptr(t.b)
	most := tilePixels(level)
	for i := range tiles(d.Out.W, most) {
		a, b := split(d.Out.W, most, i)
		t.a = at(ptr(x), d.In.At(p.cb, y*d.StrideH-d.Top, a*d.StrideW-d.Left))
		t.c = at(c, a*Lanes)
		runTile(level, b-a, p.blocks, &t)
	}
}

type permutedRows struct{ *PermutedPointwise }

func (d permutedRows) layout() Layout               { return d.out }
func (d permutedRows) check(x []float32)            { d.in.check("input", x) }
func (d permutedRows) count() int                   { return len(d.panels) }
func (d permutedRows) at(p int) (block, blocks int) { return d.panels[p].block, d.panels[p].blocks }

func (d permutedRows) row(level cpu.Level, c unsafe.Pointer, ldc int, x []float32, pi, y int,
	ep *BlockedEpilogue, _ *ring) {
	p := &d.panels[pi]
	t := tileArgs{pixel: d.strideW * Lanes * 4, ldc: ldc, bStep: p.blocks * Lanes * 4, act: uint64(ep.Act),
		cb: len(p.deltas), deltas: unsafe.Pointer(&p.deltas[0]),
		b: at(ptr(d.data), p.offset), bias: at(ptr(d.bias), p.block*Lanes)}
	t.lo, t.hi = ep.bounds()
	most := tilePixels(level)
	for i := range tiles(d.out.W, most) {
		a, b := split(d.out.W, most, i)
		t.a = at(ptr(x), d.in.At(0, y*d.strideH, a*d.strideW)+p.first)
		t.c = at(c, a*Lanes)
		runPermuted(level, b-a, p.blocks, &t)
	}
}

type nchwInputRows struct{ *NCHWInput }

func (d nchwInputRows) layout() Layout    { return d.Out }
func (d nchwInputRows) check(x []float32) { d.NCHWInput.check(x) }
func (d nchwInputRows) count() int        { return len(d.Weights.panels) }
func (d nchwInputRows) at(p int) (block, blocks int) {
	return d.Weights.panels[p].block, d.Weights.panels[p].blocks
}

func (d nchwInputRows) row(level cpu.Level, c unsafe.Pointer, ldc int, x []float32, p, y int,
	ep *BlockedEpilogue, s *ring) {
	d.rowOf(level, c, ldc, nil, x, &d.Weights.panels[p], y, ep, &s.window)
}
