package conv

import (
	"encoding/binary"
	"unsafe"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/kernels/gemm"
)

// Transposed is a transposed convolution over two dimensions. Outputs at distances of the stride (a
// phase) are a convolution of the input with every stride-th element of the kernel. All phases
// together are one convolution with stride·stride times as many output channels, or each phase is
// one of its own where that saves many multiplications. The results are interleaved: those of
// separate convolutions in blocks of channels, those of a common one in planes. It is immutable.
type Transposed struct {
	in     Layout
	m      int // channels out
	axes   [2]transposedAxis
	convs  []transposedConv
	phases []transposedPhase // [stride][stride], of a common convolution
	whole  Layout            // the result of separate ones
	out    int               // elements of the largest result of a convolution
	planes int               // elements of all planes, or of whole
}

// transposedAxis describes one spatial dimension.
type transposedAxis struct{ out, stride, pad, kernel int }

// taps returns the number of taps of a phase.
func (a *transposedAxis) taps(phase int) int { return tiles(a.kernel-phase, a.stride) }

// first returns the first output of a phase, counted without the padding in strides.
func (a *transposedAxis) first(phase int) int { return tiles(max(0, a.pad-phase), a.stride) }

// count returns the number of outputs of a phase.
func (a *transposedAxis) count(phase int) int {
	last := a.out - 1 + a.pad - phase
	if last < 0 {
		return 0
	}
	return last/a.stride - a.first(phase) + 1
}

// transposedConv is a convolution. If there are several, its results are every stride-th pixel from
// (y, x) on.
type transposedConv struct {
	out    Layout
	y, x   int
	kernel interface {
		Check() error
		Run(level cpu.Level, par gemm.Par, y, x []float32, ep *BlockedEpilogue)
	}
}

// transposedPhase says where the outputs of a phase are: row k of channel c begins at element
// at + c·plane + k·row.
type transposedPhase struct{ at, plane, row int }

// NewTransposed packs w of shape (Cin, Cout, KH, KW) for in input and out output elements per
// dimension, where output o is the sum of x[i]·w[o+pad-i·stride]. bias may be nil. The padding must
// be less than the kernel.
func NewTransposed(level cpu.Level, w, bias []float32, cin, cout int,
	kernel, in, out, stride, pad [2]int) (*Transposed, error) {
	d := &Transposed{m: cout}
	var taps, before, after, size [2]int
	for i := range 2 {
		taps[i] = tiles(kernel[i], stride[i])
		d.axes[i] = transposedAxis{out: out[i], stride: stride[i], pad: pad[i], kernel: kernel[i]}
		first, last := pad[i]/stride[i], (out[i]-1+pad[i])/stride[i]
		size[i] = last - first + 1
		if before[i] = taps[i] - 1 - first; before[i] < 0 {
			return nil, fail.Errorf("unsupported padding %d for kernel %d and stride %d", pad[i], kernel[i], stride[i])
		}
		after[i] = max(0, last-(in[i]-1))
	}
	d.in = NewLayout(cin, in[0], in[1], before[0], before[1], after[0], after[1])
	v, h := &d.axes[0], &d.axes[1]
	phases := stride[0] * stride[1]
	// weights returns the weights of a phase, with zeros up to th·tw taps.
	weights := func(dst []float32, ph, th, tw int) {
		for o := range cout {
			for c := range cin {
				dst := dst[(o*cin+c)*th*tw:][:th*tw]
				src := w[(c*cout+o)*kernel[0]*kernel[1]:][:kernel[0]*kernel[1]]
				for y := range th {
					for x := range tw {
						ky, kx := ph/stride[1]+stride[0]*(th-1-y), ph%stride[1]+stride[1]*(tw-1-x)
						if ky < kernel[0] && kx < kernel[1] {
							dst[y*tw+x] = src[ky*kernel[1]+kx]
						}
					}
				}
			}
		}
	}
	if d.apart(level, phases*taps[0]*taps[1]*size[0]*size[1], taps, size) {
		for ph := range phases {
			pv, px := ph/stride[1], ph%stride[1]
			th, tw := v.taps(pv), h.taps(px)
			out := NewLayout(cout, v.count(pv), h.count(px), 0, 0, 0, 0)
			flat := make([]float32, cout*cin*th*tw)
			weights(flat, ph, th, tw)
			if err := d.add(level, flat, bias, out, th, tw, th-1-v.first(pv), tw-1-h.first(px)); err != nil {
				return nil, err
			}
			c := &d.convs[ph]
			c.y, c.x = pv+v.first(pv)*v.stride-v.pad, px+h.first(px)*h.stride-h.pad
		}
		d.whole = NewLayout(cout, v.out, h.out, 0, 0, 0, 0)
		d.planes = d.whole.Len()
		return d, nil
	}
	th, tw := taps[0], taps[1]
	flat, b := make([]float32, phases*cout*cin*th*tw), make([]float32, phases*cout)
	plane, row := size[0]*size[1], size[1]
	for ph := range phases {
		copy(b[ph*cout:], bias)
		weights(flat[ph*cout*cin*th*tw:], ph, th, tw)
		y, x := v.first(ph/stride[1])-pad[0]/stride[0], h.first(ph%stride[1])-pad[1]/stride[1]
		d.phases = append(d.phases, transposedPhase{ph*cout*plane + y*row + x, plane, row})
	}
	d.planes = phases * cout * plane
	return d, d.add(level, flat, b, NewLayout(phases*cout, size[0], size[1], 0, 0, 0, 0), th, tw, before[0], before[1])
}

// apart reports whether the phases should be separate convolutions, given the multiplications per
// channel of a common one: its phases have the taps of the longest, and the outputs of all.
func (d *Transposed) apart(level cpu.Level, together int, taps, size [2]int) bool {
	v, h := &d.axes[0], &d.axes[1]
	if d.m < Lanes || v.stride*h.stride == 1 {
		return false
	}
	if taps == [2]int{3, 3} {
		switch ChooseWinograd(level, d.in.C, v.stride*h.stride*d.m, size[0], size[1], 1) {
		case 2:
			together /= 2
		case 4:
			together /= 3
		}
	}
	n := 0
	for pv := range v.stride {
		for px := range h.stride {
			th, tw, rows, columns := v.taps(pv), h.taps(px), v.count(pv), h.count(px)
			if th-1 < v.first(pv) || tw-1 < h.first(px) || rows <= 0 || columns <= 0 {
				return false
			}
			n += th * tw * rows * columns
		}
	}
	n = n * tiles(d.m, Lanes) * Lanes / d.m // channels that fill up blocks
	if tiles(d.m, Lanes)%2 == 1 {           // panels of one block are slower
		together = together * 7 / 8
	}
	return n < together
}

// add adds a convolution with weights of shape (out.C, Cin, th, tw).
func (d *Transposed) add(level cpu.Level, w, bias []float32, out Layout, th, tw, top, left int) error {
	cin := d.in.C
	c := transposedConv{out: out}
	if m := ChooseWinograd(level, cin, out.C, out.H, out.W, 1); m > 0 && th == 3 && tw == 3 {
		c.kernel = &Winograd{In: d.in, Out: out, Top: top, Left: left, Dilation: 1,
			Weights: PackWinograd(level, m, w, bias, cin, out.C)}
	} else {
		c.kernel = &Direct{In: d.in, Out: out, StrideH: 1, StrideW: 1, DilationH: 1, DilationW: 1, Top: top, Left: left,
			Weights: PackWeights(level, w, bias, cin, out.C, 1, th, tw)}
	}
	d.convs = append(d.convs, c)
	d.out = max(d.out, out.Len())
	return c.kernel.Check()
}

// Scratch returns the number of scratch elements that [Transposed.Run] needs.
func (d *Transposed) Scratch() int { return d.in.Len() + d.out + d.planes }

// Run computes y of shape (Cout, H, W) from x of shape (Cin, H, W). par distributes blocks and
// rows; if it is nil, one call computes everything.
func (d *Transposed) Run(level cpu.Level, par gemm.Par, y, x, scratch []float32) {
	par = orSerial(par)
	in, scratch := scratch[:d.in.Len()], scratch[d.in.Len():]
	out, planes := scratch[:d.out], scratch[d.out:][:d.planes]
	par(d.in.Blocks()*d.in.Bands(), func(lo, hi int) { d.in.FromBands(level, in, x, lo, hi) })
	for i := range d.convs {
		c := &d.convs[i]
		out := out[:c.out.Len()]
		c.kernel.Run(level, par, out, in, &BlockedEpilogue{})
		if len(d.convs) > 1 {
			par(c.out.Blocks()*c.out.H, func(lo, hi int) { d.spread(c, planes, out, lo, hi) })
			continue
		}
		par(c.out.Blocks()*c.out.Bands(), func(lo, hi int) { c.out.ToBands(level, planes, out, lo, hi) })
	}
	if len(d.convs) > 1 {
		par(d.whole.Blocks()*d.whole.Bands(), func(lo, hi int) { d.whole.ToBands(level, y, planes, lo, hi) })
		return
	}
	v, h := &d.axes[0], &d.axes[1]
	par(d.m*v.out, func(lo, hi int) {
		for u := lo; u < hi; u++ {
			c, o := u/v.out, u%v.out
			phase, k := (o+v.pad)%v.stride, o/v.stride // the number of earlier outputs of the phase
			interleave(y[u*h.out:][:h.out], h.stride, h.pad, func(q int) []float32 {
				p := &d.phases[phase*h.stride+q]
				return planes[p.at+c*p.plane+k*p.row:]
			})
		}
	})
}

// spread copies rows [lo, hi) of the blocks of a result to their pixels of whole.
func (d *Transposed) spread(c *transposedConv, whole, src []float32, lo, hi int) {
	step := d.axes[1].stride * Lanes
	for u := lo; u < hi; u++ {
		b, row := u/c.out.H, u%c.out.H
		from := src[c.out.At(b, row, 0):][:c.out.W*Lanes]
		to := whole[d.whole.At(b, c.y+row*d.axes[0].stride, c.x):]
		for i := 0; i < len(from); i += Lanes {
			*(*[Lanes]float32)(to) = *(*[Lanes]float32)(from[i:])
			to = to[min(step, len(to)):]
		}
	}
}

// interleave fills a row with the outputs of its phases: dst[o] = row((o+pad)%stride)[o/stride].
func interleave(dst []float32, stride, pad int, row func(phase int) []float32) {
	switch stride {
	case 1:
		copy(dst, row(0)[:len(dst)])
		return
	case 2:
		a, b := row(pad%2), row((pad+1)%2)
		pairs := len(dst) / 2
		if pairs > 0 {
			zip(unsafe.Slice((*byte)(unsafe.Pointer(&dst[0])), 8*pairs), bits(a[:pairs]), bits(b[:pairs]))
		}
		if len(dst)%2 == 1 {
			dst[len(dst)-1] = a[pairs]
		}
		return
	}
	for o := range min(stride, len(dst)) {
		src := row((o + pad) % stride)
		for k := 0; o+k*stride < len(dst); k++ {
			dst[o+k*stride] = src[k]
		}
	}
}

func bits(s []float32) []uint32 {
	return unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(s))), len(s))
}

// zip interleaves a and b.
func zip(dst []byte, a, b []uint32) {
	b = b[:len(a)]
	for i, v := range a {
		d := dst[8*i:][:8]
		binary.NativeEndian.PutUint32(d, v)
		binary.NativeEndian.PutUint32(d[4:], b[i])
	}
}
