package kit

import (
	"math"
	"sync"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/kernels/vec"
)

// poolPlane reduces the windows of float32 planes with vector kernels over whole planes: first the
// rows of every window, for every row of the input at which a window can start, then the columns.
// Where a window extends beyond its row, the shifted plane contains the next row; these few columns
// are reduced separately.
type poolPlane struct {
	h, w, oh, ow   int
	rows           int // rows of the reduced plane; those at multiples of the stride are used
	first, column  int // a tap of a window that is always inside of the input, and its column in the first window
	fixLo, fixHi   int // output columns whose windows lie within the rows
	kh, kw         int
	dh, dw, sh, sw int
	before         int // rows of padding
	fill           []float32
	fold           func(l cpu.Level, dst, a, b []float32)
	one            func(a, b float32) float32
}

// mostPoolPlane is the size of a plane up to which its reduced rows stay in the caches.
const mostPoolPlane = 1 << 16

// newPoolPlane returns nil for unsupported windows. least is the value of missing elements.
func newPoolPlane(g *WindowGeom, least float32, fold func(l cpu.Level, dst, a, b []float32), one func(a, b float32) float32) *poolPlane {
	if len(g.In) != 2 {
		return nil
	}
	p := &poolPlane{h: g.In[0], w: g.In[1], oh: g.Out[0], ow: g.Out[1], kh: g.Kernel[0], kw: g.Kernel[1],
		dh: g.Dilation[0], dw: g.Dilation[1], sh: g.Stride[0], sw: g.Stride[1], before: g.Before[0], fold: fold, one: one}
	if p.oh == 0 || p.ow == 0 || p.h*p.w == 0 || p.sh > 3 || p.kh > 16 || p.kw > 16 {
		return nil
	}
	p.rows = (p.oh-1)*p.sh + 1
	if p.rows > 2*p.h || p.rows*p.w > mostPoolPlane {
		return nil
	}
	p.first = max(0, (g.Before[1]+p.dw-1)/p.dw) // Before is negative if windows crop the input
	p.column = p.first*p.dw - g.Before[1]
	if p.first >= p.kw || p.column+(p.ow-1)*p.sw >= p.w {
		return nil
	}
	left, right := p.first*p.dw, (p.kw-1-p.first)*p.dw
	for p.fixLo < p.ow && p.column+p.fixLo*p.sw < left {
		p.fixLo++
	}
	p.fixHi = p.ow
	for p.fixHi > p.fixLo && p.column+(p.fixHi-1)*p.sw+right >= p.w {
		p.fixHi--
	}
	p.fill = make([]float32, p.w)
	for i := range p.fill {
		p.fill[i] = least
	}
	return p
}

// poolBuffers holds the reduced rows and columns of a plane.
var poolBuffers = sync.Pool{New: func() any { return new([]float32) }}

// run pools the plane x into y.
func (p *poolPlane) run(y, x []float32) {
	n, l := p.rows*p.w, cpu.Active()
	buf := poolBuffers.Get().(*[]float32)
	defer poolBuffers.Put(buf)
	if len(*buf) < 2*n {
		*buf = make([]float32, 2*n)
	}
	v, r := (*buf)[:n], (*buf)[n:2*n]
	// span returns the rows of v for which row k of the window lies in the input, and the row
	// shift.
	span := func(k int) (lo, hi, shift int) {
		shift = k*p.dh - p.before
		return min(max(0, -shift), p.rows), max(0, min(p.rows, p.h-shift)), shift
	}
	most, from, to := -1, 0, 0
	for k := range p.kh {
		if lo, hi, _ := span(k); hi-lo > to-from {
			most, from, to = k, lo, hi
		}
	}
	for i := 0; i < p.rows; i++ {
		if i == from && to > from {
			i = to
		}
		if i < p.rows {
			copy(v[i*p.w:(i+1)*p.w], p.fill)
		}
	}
	for k := -1; k < p.kh; k++ {
		switch lo, hi, shift := span(max(k, 0)); {
		case k < 0 && most >= 0:
			_, _, shift = span(most)
			copy(v[from*p.w:to*p.w], x[(from+shift)*p.w:])
		case k >= 0 && k != most && lo < hi:
			d := v[lo*p.w : hi*p.w]
			p.fold(l, d, d, x[(lo+shift)*p.w:(hi+shift)*p.w])
		}
	}
	direct := p.sw == 1 && p.sh == 1 && p.ow == p.w
	if direct {
		r = y
	}
	done := false
	for k := range p.kw {
		s := (k - p.first) * p.dw
		if s == 0 || s >= n || -s >= n {
			continue
		}
		lo, hi := max(0, -s), n-max(0, s)
		with := r
		if !done {
			with = v
			copy(r[:lo], v[:lo])
			copy(r[hi:], v[hi:])
			done = true
		}
		p.fold(l, r[lo:hi], with[lo:hi], v[lo+s:hi+s])
	}
	if !done {
		copy(r, v)
	}
	for i := range p.oh {
		row, out := v[i*p.sh*p.w:][:p.w], y[i*p.ow:][:p.ow]
		switch from := r[i*p.sh*p.w+p.column:]; {
		case direct:
		case p.sw == 1:
			copy(out, from)
		case p.sw == 2 && len(from) >= 2*len(out):
			for j := range out {
				out[j] = from[2*j]
			}
		default:
			for j := range out {
				out[j] = from[j*p.sw]
			}
		}
		for j := 0; j < p.ow; j++ {
			if j == p.fixLo {
				j = p.fixHi
			}
			if j < p.ow {
				out[j] = p.edge(row, j)
			}
		}
	}
}

// edge reduces the columns of output column j that lie within the row.
func (p *poolPlane) edge(row []float32, j int) float32 {
	at := p.column + j*p.sw
	v := row[at]
	for k := range p.kw {
		if c := at + (k-p.first)*p.dw; k != p.first && c >= 0 && c < p.w {
			v = p.one(v, row[c])
		}
	}
	return v
}

func newMaxPlane(g *WindowGeom) *poolPlane {
	return newPoolPlane(g, float32(math.Inf(-1)), vec.MaxF32, func(a, b float32) float32 { return max(a, b) })
}

func newSumPlane(g *WindowGeom) *poolPlane {
	return newPoolPlane(g, 0, vec.AddF32, func(a, b float32) float32 { return a + b })
}
