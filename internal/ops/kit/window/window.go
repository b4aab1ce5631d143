// Package window computes operators whose kernel slides over spatial axes: the geometry of
// windows, convolutions, transposed and integer convolutions, and poolings. Conv, the poolings and
// their forms in other domains and layouts import it.
package window

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
)

// ConvGeometry is the position of a convolution or pooling window for known sizes.
type ConvGeometry struct {
	OutH, OutW               int
	Top, Left, Bottom, Right int // padding that the windows reach into
}

// Geometry2 returns the geometry of a window over an h×w image. kernel is the kernel's size.
func (w *Window) Geometry2(h, width int, kernel []int) (ConvGeometry, error) {
	g, err := w.Resolve([]int{h, width}, kernel)
	if err != nil {
		return ConvGeometry{}, err
	}
	reach := func(i int) int {
		return max(0, (g.Out[i]-1)*g.Stride[i]+(g.Kernel[i]-1)*g.Dilation[i]+1-g.Before[i]-g.In[i])
	}
	return ConvGeometry{OutH: g.Out[0], OutW: g.Out[1], Top: g.Before[0], Left: g.Before[1], Bottom: reach(0),
		Right: reach(1)}, nil
}

// Window describes how a kernel slides over the spatial axes D1…Dn of an N×C×D1×…×Dn tensor, given
// by the attributes of convolutions and poolings.
type Window struct {
	AutoPad   string // NOTSET, SAME_UPPER, SAME_LOWER or VALID
	Kernel    []int  // nil: the weights' spatial shape
	Strides   []int  // nil: 1
	Dilations []int  // nil: 1
	Pads      []int  // before each axis, then after each axis; nil: 0
	Ceil      bool   // round the output size up
	Crop      bool   // allow negative padding in SAME_ modes, if strides exceed the kernel
}

// Plane returns the window over planes of height 1 that equals w, a window over one axis.
func (w *Window) Plane() Window {
	p := *w
	before, after := w.PadsOf(0, 1)
	p.Strides, p.Dilations, p.Pads = []int{1, w.Stride(0)}, []int{1, w.Dilation(0)}, []int{0, before, 0, after}
	if len(w.Kernel) > 0 {
		p.Kernel = []int{1, w.Kernel[0]}
	}
	return p
}

// Limit limits attributes of windows, so that sums and products of two of them and a
// dimension cannot overflow.
const Limit = 1 << 30

// Read reads auto_pad, kernel_shape, strides and pads, and dilations if the operator has
// them.
func Read(a *kit.Attrs, dilations bool) Window {
	w := Window{
		AutoPad: a.Enum("auto_pad", "NOTSET", "", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"),
		Kernel:  Attr(a, "kernel_shape", 1), Strides: Attr(a, "strides", 1), Pads: Attr(a, "pads", 0),
	}
	if w.AutoPad == "" {
		w.AutoPad = "NOTSET"
	}
	if dilations {
		w.Dilations = Attr(a, "dilations", 1)
	}
	if len(w.Pads)%2 != 0 {
		a.Errorf("attribute pads has %d elements, want two per axis", len(w.Pads))
	}
	n := max(len(w.Kernel), len(w.Strides), len(w.Dilations), len(w.Pads)/2)
	if n > 0 && w.Check(n) != nil {
		a.Errorf("%w", w.Check(n))
	}
	return w
}

// Attr reads a list of ints in [least, Limit]. It returns nil for an empty list.
func Attr(a *kit.Attrs, name string, least int) []int {
	v := a.Ints(name)
	for _, x := range v {
		if x < least || x > Limit {
			a.Errorf("attribute %s has the element %d, want %d to %d", name, x, least, Limit)
			return nil
		}
	}
	if len(v) == 0 {
		return nil
	}
	return v
}

// Check returns an error unless all attributes are for n spatial axes.
func (w *Window) Check(n int) error {
	for _, a := range []struct {
		name string
		v    []int
		want int
	}{{"kernel_shape", w.Kernel, n}, {"strides", w.Strides, n}, {"dilations", w.Dilations, n},
		{"pads", w.Pads, 2 * n}} {
		if a.v != nil && len(a.v) != a.want {
			return fail.Errorf("attribute %s has %d elements, want %d for %d spatial axes", a.name, len(a.v), a.want, n)
		}
	}
	return nil
}

// Stride returns the stride along spatial axis i.
func (w *Window) Stride(i int) int { return At(w.Strides, i, 1) }

// Dilation returns the dilation along spatial axis i.
func (w *Window) Dilation(i int) int { return At(w.Dilations, i, 1) }

// PadsOf returns the explicit padding of axis i of n.
func (w *Window) PadsOf(i, n int) (before, after int) {
	return At(w.Pads, i, 0), At(w.Pads, n+i, 0)
}

// At returns v[i], or def if v is nil.
func At(v []int, i, def int) int {
	if v == nil {
		return def
	}
	return v[i]
}

// Geometry is a window for known sizes, with one element per spatial axis. Output o and tap k of
// an axis read input o·stride − before + k·dilation.
type Geometry struct {
	In, Kernel, Stride, Dilation, Before, After, Out []int
}

// Whole reports whether there is one window, which covers the input without padding.
func (g *Geometry) Whole() bool {
	for i, k := range g.Kernel {
		if k != g.In[i] || k > 1 && g.Dilation[i] != 1 || g.Before[i]+g.After[i] != 0 || g.Out[i] != 1 {
			return false
		}
	}
	return true
}

// Resolve returns the geometry for an input with the given spatial shape. kernel is the shape of
// the kernel.
func (w *Window) Resolve(in, kernel []int) (Geometry, error) {
	n := len(in)
	g := Geometry{In: in, Kernel: kernel}
	if len(kernel) != n {
		return g, fail.Errorf("kernel has %d axes, the input has %d spatial axes", len(kernel), n)
	}
	if err := w.Check(n); err != nil {
		return g, err
	}
	buf := make([]int, 5*n)
	g.Stride, g.Dilation, g.Before, g.After, g.Out = buf[:n], buf[n:2*n], buf[2*n:3*n], buf[3*n:4*n], buf[4*n:]
	for i := range n {
		g.Stride[i], g.Dilation[i] = w.Stride(i), w.Dilation(i)
		var err error
		if g.Before[i], g.After[i], g.Out[i], err = w.axis(i, n, in[i], kernel[i]); err != nil {
			return g, fail.Errorf("spatial axis %d: %w", i, err)
		}
	}
	return g, nil
}

// axis returns the padding and the output size of axis i of n.
func (w *Window) axis(i, n, in, kernel int) (before, after, out int, err error) {
	if in < 0 || int64(in) > 1<<60 || kernel < 1 || kernel > Limit {
		return 0, 0, 0, fail.Errorf("input size is %d, want 0 to %d; kernel size is %d, want 1 to %d", in,
			int64(1)<<60, kernel, Limit)
	}
	s, d := w.Stride(i), w.Dilation(i)
	size := (kernel-1)*d + 1
	switch w.AutoPad {
	case "SAME_UPPER", "SAME_LOWER":
		out = (in + s - 1) / s
		total := (out-1)*s + size - in
		if out == 0 || total < 0 && !w.Crop {
			total = 0
		}
		before = total / 2
		if w.AutoPad == "SAME_LOWER" {
			before = (total + 1) / 2
		}
		return before, total - before, out, nil
	case "NOTSET":
		before, after = w.PadsOf(i, n)
	}
	room := in + before + after - size
	if w.Ceil {
		room += s - 1
	}
	if room < 0 {
		if in == 0 {
			return before, after, 0, nil
		}
		return 0, 0, 0, fail.Errorf("kernel covers %d elements, but the input with padding has only %d",
			size, in+before+after)
	}
	out = room/s + 1
	if w.Ceil && (out-1)*s >= in+before {
		out-- // the last window would start in the padding after the input
	}
	return before, after, out, nil
}

// outDims returns the spatial shape of the output, as far as it is known.
func (w *Window) outDims(in, kernel []ir.Dim) ([]ir.Dim, error) {
	n := len(in)
	if len(kernel) != n {
		return nil, fail.Errorf("kernel has %d axes, the input has %d spatial axes", len(kernel), n)
	}
	if err := w.Check(n); err != nil {
		return nil, err
	}
	out := make([]ir.Dim, n)
	for i := range n {
		k, known := kernel[i].Value()
		if x, ok := in[i].Value(); ok && known {
			_, _, o, err := w.axis(i, n, x, k)
			if err != nil {
				return nil, fail.Errorf("spatial axis %d: %w", i, err)
			}
			out[i] = ir.Known(o)
			continue
		}
		s := ir.Known(w.Stride(i))
		if w.AutoPad == "SAME_UPPER" || w.AutoPad == "SAME_LOWER" {
			out[i] = in[i].Add(s).Sub(ir.Known(1)).Div(s)
			continue
		}
		if !known || k < 1 || k > Limit {
			continue
		}
		var before, after int
		if w.AutoPad == "NOTSET" {
			before, after = w.PadsOf(i, n)
		}
		size := (k-1)*w.Dilation(i) + 1
		if w.Ceil && (!s.Is(1) || after >= size) {
			continue // the size determines whether the last window is dropped
		}
		out[i] = in[i].Add(ir.Known(before + after - size)).Div(s).Add(ir.Known(1))
	}
	return out, nil
}

// Taps returns the number of elements of the kernel.
func (g *Geometry) Taps() int { return kit.Product(g.Kernel) }

// pointwise reports whether the kernel is 1×…×1 without padding, so that outputs are at the
// positions of inputs.
func (g *Geometry) pointwise() bool {
	for i := range g.In {
		if g.Kernel[i] != 1 || g.Stride[i] != 1 || g.Before[i] != 0 || g.After[i] != 0 {
			return false
		}
	}
	return true
}

// span returns the outputs [lo, hi) of an axis whose tap k is in the input.
func (g *Geometry) span(axis, k int) (lo, hi int) {
	s, off := g.Stride[axis], k*g.Dilation[axis]-g.Before[axis]
	if off < 0 {
		lo = (-off + s - 1) / s
	}
	if last := g.In[axis] - 1 - off; last >= 0 {
		hi = min(last/s+1, g.Out[axis])
	}
	return min(lo, hi), hi
}

// Row is the part of an output row, along the last axis, to which one tap contributes:
// elements out+lo … out+hi of the output plane read elements in, in+stride, … of the input plane.
type Row struct {
	Out, Lo, Hi int
	In          int
	Tap         int
}

// EachRow calls fn for every row of one output plane and every tap that reads the input there, taps
// in row-major order within a row, until fn returns false.
func (g *Geometry) EachRow(fn func(r Row) bool) {
	g.rows(0, kit.Product(g.Out[:len(g.Out)-1]), fn)
}

// rows is eachRow for the rows [from, to).
func (g *Geometry) rows(from, to int, fn func(r Row) bool) {
	n := len(g.In) - 1
	wout, win := g.Out[n], g.In[n]
	pos, tap := make([]int, n), make([]int, n)
	first, end := make([]int, n), make([]int, n)
	for d, i := n-1, from; d >= 0; d-- {
		pos[d], i = i%g.Out[d], i/g.Out[d]
	}
	kw, kfirst, kend := g.Kernel[n], 0, 0
	if wout > 0 {
		_, kend = g.TapRange(n, 0)
		kfirst, _ = g.TapRange(n, wout-1)
	}
	var spans [16][2]int
	for k := kfirst; k < min(kend, len(spans)); k++ {
		spans[k][0], spans[k][1] = g.span(n, k)
	}
	for row := from; row < to; row++ {
		for some := g.firstTap(pos, tap, first, end) && kfirst < kend; some; some = nextTap(tap, first, end) {
			in, t := 0, 0
			for d := range n {
				in = in*g.In[d] + pos[d]*g.Stride[d] - g.Before[d] + tap[d]*g.Dilation[d]
				t = t*g.Kernel[d] + tap[d]
			}
			for k := kfirst; k < kend; k++ {
				var lo, hi int
				if k < len(spans) {
					lo, hi = spans[k][0], spans[k][1]
				} else {
					lo, hi = g.span(n, k)
				}
				if lo < hi {
					x := in*win + lo*g.Stride[n] - g.Before[n] + k*g.Dilation[n]
					if !fn(Row{Out: row * wout, Lo: lo, Hi: hi, In: x, Tap: t*kw + k}) {
						return
					}
				}
			}
		}
		kit.NextIndex(pos, g.Out[:n])
	}
}

// TapRange returns the taps [first, end) of an axis that are in the input for output o.
func (g *Geometry) TapRange(axis, o int) (first, end int) {
	d, x := g.Dilation[axis], o*g.Stride[axis]-g.Before[axis]
	if x < 0 {
		first = min((-x+d-1)/d, g.Kernel[axis])
	}
	if last := g.In[axis] - 1 - x; last >= 0 {
		end = min(last/d+1, g.Kernel[axis])
	}
	return first, end
}

// firstTap sets first and end to the ranges of taps that are in the input for the output at pos,
// and tap to the first of them. It reports whether a tap is in the input. It considers as many
// leading axes as pos has.
func (g *Geometry) firstTap(pos, tap, first, end []int) bool {
	some := true
	for d, o := range pos {
		first[d], end[d] = g.TapRange(d, o)
		some = some && first[d] < end[d]
	}
	copy(tap, first)
	return some
}

// nextTap moves tap to the next in row-major order and reports whether there is
// one.
func nextTap(tap, first, end []int) bool {
	for d := len(tap) - 1; d >= 0; d-- {
		if tap[d]++; tap[d] < end[d] {
			return true
		}
		tap[d] = first[d]
	}
	return false
}

// Counts returns, for each output of an axis, the number of taps in the input, or if padded is set
// in the input and its padding.
func (g *Geometry) Counts(axis int, padded bool) []int {
	r := make([]int, g.Out[axis])
	lo, hi := 0, g.In[axis]
	if padded {
		lo, hi = -g.Before[axis], hi+g.After[axis]
	}
	d := g.Dilation[axis]
	for o := range r {
		x := o*g.Stride[axis] - g.Before[axis]
		first, end := 0, g.Kernel[axis]
		if x < lo {
			first = (lo - x + d - 1) / d
		}
		if hi <= x {
			end = 0
		} else {
			end = min(end, (hi-1-x)/d+1)
		}
		r[o] = max(0, end-first)
	}
	return r
}
