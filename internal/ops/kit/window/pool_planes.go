package window

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
)

// PoolPlane reduces the windows of float32 planes of up to three dimensions with vector kernels:
// first along the columns of the windows, into rows that include the horizontal padding, then along
// these rows. With stride 1 a small plane is reduced as a whole, with its padding, as one long row.
type PoolPlane struct {
	in, out, kernel, dilation, stride, before [3]int // depth, height, width
	taps                                      [3][][2]int
	width                                     int // of a row with its padding
	height                                    int // of a plane with its padding, if it is reduced as a whole
	lo, hi                                    int // columns of a padded row that are in the input
	// whether windows of three dimensions do not overlap along rows, are within the input, do not
	// crop it on the left and skip no rows
	stacked bool
	least   float32
	fold    func(l cpu.Level, dst, x []float32, rows, rowStep, taps, tapStep, stride int, fresh bool)
	sum     int        // 1 for sums
	rows    []vec.Line // of three dimensions
	// of the taps in the input, if adjacent rows are reduced as one
	masks []uint16
	// rows that are reduced as one, and elements that the kernel reads before and after them
	lines, front, rear int
	// the columns of these rows, of adjacent rows of a plane together if they have no gaps
	parts [][]vec.Line
	pitch int       // distance of these rows, a multiple of the stride
	group int       // planes that are reduced together
	by    []float32 // divisors of the results of a group, for means
}

// mostPoolPlane is the number of elements up to which a plane stays in the first-level cache.
const mostPoolPlane = 1 << 12

// newPoolPlane returns nil for unsupported windows. least is the value of missing elements.
func newPoolPlane(g *Geometry, least float32, sum int,
	fold func(l cpu.Level, dst, x []float32, rows, rowStep, taps, tapStep, stride int, fresh bool)) *PoolPlane {
	n := len(g.In)
	if n > 3 || kit.Product(g.In) == 0 || kit.Product(g.Out) == 0 || g.Taps() > mostPoolPlane {
		return nil
	}
	p := &PoolPlane{least: least, fold: fold, sum: sum, group: 1}
	for d := range 3 {
		p.in[d], p.out[d], p.kernel[d], p.dilation[d], p.stride[d] = 1, 1, 1, 1, 1
		if k := d - (3 - n); k >= 0 {
			p.in[d], p.out[d], p.kernel[d], p.dilation[d], p.stride[d], p.before[d] = g.In[k], g.Out[k], g.Kernel[k],
				g.Dilation[k], g.Stride[k], g.Before[k]
			for o := range g.Out[k] {
				first, end := g.TapRange(k, o)
				p.taps[d] = append(p.taps[d], [2]int{first, end})
			}
		} else {
			p.taps[d] = [][2]int{{0, 1}}
		}
	}
	padded := func(d int) int { return (p.out[d]-1)*p.stride[d] + (p.kernel[d]-1)*p.dilation[d] + 1 }
	p.width = padded(2)
	p.lo = min(max(0, p.before[2]), p.width) // before is negative if windows crop the input
	p.hi = max(p.lo, min(p.width, p.in[2]+p.before[2]))
	if p.width > 4*p.in[2]+1<<10 {
		return nil
	}
	p.stacked = n == 3 && p.before[2] == 0 && p.hi == p.width && p.out[2]*p.stride[2] == p.in[2] &&
		(p.kernel[2]-1)*p.dilation[2] < p.stride[2] && p.in[2] <= mostPoolPlane/2 && p.kernel[1] <= 16 &&
		p.stride[1] <= p.span(1)
	for d := range 2 {
		for _, t := range p.taps[d] {
			p.stacked = p.stacked && t == [2]int{0, p.kernel[d]}
		}
	}
	if p.stacked {
		p.lines = min(p.out[1], mostPoolPlane/2/p.in[2])
		p.rows = make([]vec.Line, p.lines)
		for o := range p.rows {
			p.rows[o] = vec.Line{From: o * p.stride[1] * p.in[2], Taps: p.kernel[1], N: p.in[2]}
		}
	}
	if h := padded(1); n == 2 && p.stride[1] == 1 && p.stride[2] == 1 && h*p.width <= mostPoolPlane {
		p.height = h
	}
	if used := min(p.in[2], p.width-p.before[2]); (n == 2 || n == 1 && p.stride[2] > 2) && cpu.Active() == cpu.AVX512 &&
		p.stride[2] <= 4 && used > 0 && max(p.kernel[1], p.kernel[2]) <= 16 {
		if pitch := max(p.out[2], (used+p.stride[2]-1)/p.stride[2]) * p.stride[2]; pitch <= mostPoolPlane/2 {
			p.mask(pitch)
		}
	}
	return p
}

// mask computes rows and masks.
func (p *PoolPlane) mask(pitch int) {
	p.pitch = pitch
	taps, ow := p.kernel[2], p.out[2]
	p.lines = mostPoolPlane / 2 / pitch
	p.group = max(1, p.lines/p.out[1])
	p.lines = min(p.lines, p.group*p.out[1])
	p.front, p.rear = max(0, p.before[2]+15)&^15, max(0, (taps-1)*p.dilation[2]-p.before[2])+16*p.stride[2]
	n := min(p.in[2], pitch)
	for i := range p.group * p.out[1] {
		if i%p.lines == 0 {
			p.parts = append(p.parts, nil)
		}
		part := &p.parts[len(p.parts)-1]
		plane, o := i/p.out[1], i%p.out[1]
		t := p.taps[1][o]
		line := vec.Line{From: (plane*p.in[1] + o*p.stride[1] - p.before[1] + t[0]*p.dilation[1]) * p.in[2],
			Taps: max(0, t[1]-t[0]), N: n}
		if k := len(*part) - 1; k >= 0 && o > 0 && n == pitch {
			if last := &(*part)[k]; last.Taps == line.Taps && last.From+last.N == line.From {
				last.N += n
				continue
			}
		}
		*part = append(*part, line)
	}
	n = ow // outputs with masks of their own
	if p.adjacent() {
		n *= p.lines
	}
	p.masks = make([]uint16, (n+15)/16*taps)
	for i := range n {
		t := p.taps[2][i%ow]
		for k := t[0]; k < t[1]; k++ {
			p.masks[i/16*taps+k] |= 1 << (i % 16)
		}
	}
}

// adjacent reports whether the windows of the rows that are reduced as one keep their stride across
// rows.
func (p *PoolPlane) adjacent() bool { return p.pitch == p.out[2]*p.stride[2] }

// poolBuffers holds padded rows and planes.
var poolBuffers = sync.Pool{New: func() any { return new([]float32) }}

// Planes pools planes in parallel.
func (p *PoolPlane) Planes(c *ir.Call, g *Geometry, y, x []float32, planes int) error {
	in, out := kit.Product(g.In), kit.Product(g.Out)
	grain := kit.GrainFor(out*min(1<<20, g.Taps())) / p.group
	c.Parallel((planes+p.group-1)/p.group, max(1, grain), func(lo, hi int) {
		m := &ir.Meter{C: c}
		for ; lo < hi && m.Spend(0); lo++ {
			first, end := lo*p.group, min(planes, (lo+1)*p.group)
			to := y[first*out : end*out]
			if !p.Run(m, to, x[first*in:end*in]) {
				return
			}
			if p.by != nil {
				vec.DivF32(cpu.Active(), to, to, p.by[:len(to)])
			}
		}
	})
	return c.Err()
}

// Run pools the plane x into y, or some planes if they are reduced together. It reports whether to
// go on.
func (p *PoolPlane) Run(m *ir.Meter, y, x []float32) bool {
	buf := poolBuffers.Get().(*[]float32)
	defer poolBuffers.Put(buf)
	need := max(p.width+2*p.height*p.width, p.front+p.lines*p.pitch+p.rear)
	if p.stacked {
		need = max(need, (p.lines+p.span(p.lines))*p.in[2])
	}
	if len(*buf) < need {
		*buf = make([]float32, need)
	}
	if p.masks != nil {
		return p.flat(m, y, x, *buf)
	}
	if p.height > 0 {
		p.whole(y, x, *buf)
		return m.Spend(len(y))
	}
	if p.stacked {
		return p.stack(m, y, x, *buf)
	}
	l, w, ow := cpu.Active(), p.in[2], p.out[2]
	row := (*buf)[:p.width]
	vec.FillF32(row, p.least)
	direct := p.lo == 0 && p.hi == p.width && p.kernel[1]*p.kernel[2] <= 4 // one call for a row
	for od, depth := range p.taps[0] {
		for oh, height := range p.taps[1] {
			out, fresh := y[(od*p.out[1]+oh)*ow:][:ow], true
			for kd := depth[0]; kd < depth[1]; kd++ {
				top := (od*p.stride[0]-p.before[0]+kd*p.dilation[0])*p.in[1] + oh*p.stride[1] - p.before[1] +
					height[0]*p.dilation[1]
				switch rows := height[1] - height[0]; {
				case rows <= 0 || p.lo == p.hi:
				case direct:
					p.fold(l, out, x[top*w-p.before[2]:], rows, p.dilation[1]*w, p.kernel[2], p.dilation[2],
						p.stride[2], fresh)
					fresh = false
				default:
					p.fold(l, row[p.lo:p.hi], x[top*w+p.lo-p.before[2]:], rows, p.dilation[1]*w, 1, 0, 1, fresh)
					fresh = false
				}
			}
			if fresh {
				vec.FillF32(row[p.lo:p.hi], p.least)
			}
			if fresh || !direct {
				p.fold(l, out, row, 1, 0, p.kernel[2], p.dilation[2], p.stride[2], true)
			}
			if !m.Spend(ow) {
				return false
			}
		}
	}
	return true
}

// stack reduces the windows of some adjacent rows of a slice at once: their depth, then their
// columns into adjacent rows, then along all of these.
func (p *PoolPlane) stack(m *ir.Meter, y, x, buf []float32) bool {
	l, w, ow := cpu.Active(), p.in[2], p.out[2]
	rows, deep := buf[:p.lines*w], buf[p.lines*w:]
	for o := 0; o < p.out[0]*p.out[1]; {
		od, oh := o/p.out[1], o%p.out[1]
		n := min(p.lines, p.out[1]-oh)
		from := x[((od*p.stride[0]-p.before[0])*p.in[1]+oh*p.stride[1]-p.before[1])*w:]
		if p.kernel[0] > 1 {
			d := deep[:p.span(n)*w]
			p.fold(l, d, from, p.kernel[0], p.dilation[0]*p.in[1]*w, 1, 0, 1, true)
			from = d
		}
		if l == cpu.AVX512 {
			vec.LineWindowF32(rows, 0, from, p.rows[:n], p.dilation[1]*w, p.sum)
		} else {
			for i, r := range p.rows[:n] {
				p.fold(l, rows[i*w:][:w], from[r.From:], r.Taps, p.dilation[1]*w, 1, 0, 1, true)
			}
		}
		p.fold(l, y[o*ow:][:n*ow], rows, 1, 0, p.kernel[2], p.dilation[2], p.stride[2], true)
		if !m.Spend(n * ow) {
			return false
		}
		o += n
	}
	return true
}

// span returns the number of rows of the input that windows of n adjacent rows cover.
func (p *PoolPlane) span(n int) int {
	return (n-1)*p.stride[1] + (p.kernel[1]-1)*p.dilation[1] + 1
}

// flat reduces the columns of the windows into rows, pitch elements apart, then along all of these
// at once. The masks separate neighbouring rows, so that padding is not needed.
func (p *PoolPlane) flat(m *ir.Meter, y, x, buf []float32) bool {
	w, ow, from := p.in[2], p.out[2], buf[p.front:]
	for oh, rows := 0, len(y)/ow; oh < rows; oh += p.lines {
		end, all := min(rows, oh+p.lines), min(p.group*p.out[1], oh+p.lines)
		part := p.parts[oh/p.lines]
		// of a group, some planes
		vec.LineWindowF32(from, p.pitch-min(w, p.pitch), x, part[:len(part)*(end-oh)/(all-oh)], p.dilation[1]*w, p.sum)
		n := ow
		if p.adjacent() {
			n *= end - oh
		}
		vec.MaskedWindowF32(y[oh*ow:end*ow], buf[p.front-p.before[2]:], n, p.pitch, p.kernel[2], p.dilation[2],
			p.stride[2], p.masks, p.sum)
		if !m.Spend((end - oh) * ow) {
			return false
		}
	}
	return true
}

// whole pools a plane with stride 1 as one row.
func (p *PoolPlane) whole(y, x, buf []float32) {
	l, w, oh, ow := cpu.Active(), p.in[2], p.out[1], p.out[2]
	n := p.height * p.width
	a, b := buf[:n], buf[n:2*n]
	vec.FillF32(a, p.least)
	for i := range p.in[1] {
		if r := i + p.before[1]; r >= 0 && r < p.height {
			copy(a[r*p.width+p.lo:r*p.width+p.hi], x[i*w+p.lo-p.before[2]:])
		}
	}
	n = oh * p.width
	p.fold(l, b[:n], a, p.kernel[1], p.dilation[1]*p.width, 1, 0, 1, true)
	n -= p.width - ow // of the last row
	p.fold(l, a[:n], b, 1, 0, p.kernel[2], p.dilation[2], 1, true)
	for i := range oh {
		copy(y[i*ow:(i+1)*ow], a[i*p.width:])
	}
}

// NewMaxPlane returns a PoolPlane for maxima, or nil if the window is not supported.
func NewMaxPlane(c *ir.Call, g *Geometry) *PoolPlane {
	if c.Generic {
		return nil
	}
	return newMaxPlane(g)
}

func newMaxPlane(g *Geometry) *PoolPlane {
	return planned(g, poolMax, func() *PoolPlane { return newPoolPlane(g, float32(math.Inf(-1)), 0, vec.MaxWindowF32) })
}

// newSumPlane returns a PoolPlane for means; countPad counts elements in the padding.
func newSumPlane(g *Geometry, countPad bool) *PoolPlane {
	kind := poolMean
	if countPad {
		kind = poolPaddedMean
	}
	return planned(g, kind, func() *PoolPlane {
		p := newPoolPlane(g, 0, 1, vec.SumWindowF32)
		if p != nil {
			p.divideBy(g, countPad)
		}
		return p
	})
}

// divideBy computes the sizes of the windows.
func (p *PoolPlane) divideBy(g *Geometry, countPad bool) {
	n, out := len(g.In), kit.Product(g.Out)
	counts := make([][]int, n)
	for d := range counts {
		counts[d] = g.Counts(d, countPad)
	}
	p.by = make([]float32, p.group*out)
	pos, last := make([]int, n-1), -1
	for row, wide := p.by[:out], g.Out[n-1]; len(row) > 0; row = row[wide:] {
		num := 1
		for d, k := range pos {
			num *= counts[d][k]
		}
		if num == last { // the windows of most rows have equal heights
			copy(row[:wide], p.by[out-len(row)-wide:])
		} else {
			for i, k := range counts[n-1] {
				row[i] = float32(max(1, num*k))
			}
		}
		last = num
		kit.NextIndex(pos, g.Out[:n-1])
	}
	for n := out; n < len(p.by); n *= 2 { // the same for each plane
		copy(p.by[n:], p.by[:n])
	}
}

type poolKind uint8

const (
	poolMax poolKind = iota
	poolMean
	poolPaddedMean
)

// poolPlan is a PoolPlane, and the numbers that it depends on.
type poolPlan struct {
	key   []int
	plane *PoolPlane
}

// poolPlans holds recent plans: to make one takes as long as to pool some small planes.
var poolPlans [32]atomic.Pointer[poolPlan]

// planned returns the plan for g, made by build if it is not among the recent ones.
func planned(g *Geometry, kind poolKind, build func() *PoolPlane) *PoolPlane {
	const most = 1 << 16 // results of a plane, so that the plans stay small
	if len(g.In) > 3 || kit.Product(g.Out) > most {
		return build()
	}
	var buf [2 + 7*3]int
	key := append(buf[:0], int(cpu.Active()), int(kind))
	for _, f := range [...][]int{g.In, g.Kernel, g.Stride, g.Dilation, g.Before, g.After, g.Out} {
		key = append(key, f...)
	}
	slot := 0
	for _, v := range key {
		slot = slot*31 + v
	}
	at := &poolPlans[slot&(len(poolPlans)-1)]
	p := at.Load()
	if p == nil || !slices.Equal(p.key, key) {
		p = &poolPlan{slices.Clone(key), build()}
		at.Store(p)
	}
	return p.plane
}
