package conv

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/kernels/gemm"
)

// Transposed is a transposed convolution over two dimensions. Outputs at distances of the stride (a
// phase) are a convolution of the input with every stride-th element of the kernel. All phases
// together are one convolution with stride·stride times as many output channels, whose results are
// interleaved. It is immutable.
type Transposed struct {
	in, out Layout // of the convolution
	c, m    int    // channels in and out
	axes    [2]transposedAxis
	kernel  interface {
		Run(level cpu.Level, par gemm.Par, y, x []float32, ep *BlockedEpilogue)
	}
}

// transposedAxis describes one spatial dimension.
type transposedAxis struct{ in, out, stride, pad, first int }

// NewTransposed packs w of shape (Cin, Cout, KH, KW) for in input and out output elements per
// dimension, where output o is the sum of x[i]·w[o+pad-i·stride]. bias may be nil. The padding must
// be less than the kernel.
func NewTransposed(level cpu.Level, w, bias []float32, cin, cout int, kernel, in, out, stride, pad [2]int) (*Transposed, error) {
	d := &Transposed{c: cin, m: cout}
	var taps, before, after, size [2]int
	for i := range 2 {
		taps[i] = tiles(kernel[i], stride[i])
		a := transposedAxis{in: in[i], out: out[i], stride: stride[i], pad: pad[i], first: pad[i] / stride[i]}
		last := (out[i] - 1 + pad[i]) / stride[i]
		size[i] = last - a.first + 1
		if before[i] = taps[i] - 1 - a.first; before[i] < 0 {
			return nil, fmt.Errorf("unsupported padding %d for kernel %d and stride %d", pad[i], kernel[i], stride[i])
		}
		after[i] = max(0, last-(in[i]-1))
		d.axes[i] = a
	}
	phases := stride[0] * stride[1]
	th, tw := taps[0], taps[1]
	flat, b := make([]float32, phases*cout*cin*th*tw), make([]float32, phases*cout)
	for ph := range phases {
		for o := range cout {
			if bias != nil {
				b[ph*cout+o] = bias[o]
			}
			for c := range cin {
				dst := flat[((ph*cout+o)*cin+c)*th*tw:][:th*tw]
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
	d.in = NewLayout(cin, in[0], in[1], before[0], before[1], after[0], after[1])
	d.out = NewLayout(phases*cout, size[0], size[1], 0, 0, 0, 0)
	if m := ChooseWinograd(level, cin, phases*cout, size[0], size[1], 1); m > 0 && th == 3 && tw == 3 {
		k := &Winograd{In: d.in, Out: d.out, Top: before[0], Left: before[1], Dilation: 1, Weights: PackWinograd(level, m, flat, b, cin, phases*cout)}
		d.kernel = k
		return d, k.Check()
	}
	k := &Direct{In: d.in, Out: d.out, StrideH: 1, StrideW: 1, DilationH: 1, DilationW: 1, Top: before[0], Left: before[1],
		Weights: PackWeights(level, flat, b, cin, phases*cout, 1, th, tw)}
	d.kernel = k
	return d, k.Check()
}

// Scratch returns the number of scratch elements that [Transposed.Run] needs.
func (d *Transposed) Scratch() int {
	return d.in.Len() + d.out.Len() + d.out.C*d.out.H*d.out.W
}

// Run computes y of shape (Cout, H, W) from x of shape (Cin, H, W). par distributes blocks and
// rows; if it is nil, one call computes everything.
func (d *Transposed) Run(level cpu.Level, par gemm.Par, y, x, scratch []float32) {
	par = orSerial(par)
	in, scratch := scratch[:d.in.Len()], scratch[d.in.Len():]
	out, planes := scratch[:d.out.Len()], scratch[d.out.Len():]
	par(d.in.Blocks(), func(lo, hi int) { d.in.FromNCHW(level, in, x, lo, hi) })
	d.kernel.Run(level, par, out, in, &BlockedEpilogue{})
	par(d.out.Blocks(), func(lo, hi int) { d.out.ToNCHW(level, planes, out, lo, hi) })
	v, h := &d.axes[0], &d.axes[1]
	plane, row := d.out.H*d.out.W, d.out.W
	par(d.m*v.out, func(lo, hi int) {
		for u := lo; u < hi; u++ {
			c, o := u/v.out, u%v.out
			e := o + v.pad
			phase := e % v.stride * h.stride
			src := planes[(phase*d.m+c)*plane+(e/v.stride-v.first)*row:]
			interleave(y[u*h.out:][:h.out], src, d.m*plane, row, h.stride, h.pad)
		}
	})
}

// interleave interleaves stride rows of n elements: dst[o] = src[(o+pad)%stride·lds + (o+pad)/stride -
// pad/stride].
func interleave(dst, src []float32, lds, n, stride, pad int) {
	switch {
	case stride == 1:
		copy(dst, src[:n])
		return
	case stride == 2:
		a, b := src[:n], src[lds:][:n]
		if pad%2 == 1 && len(dst) > 0 {
			dst[0], dst = b[0], dst[1:]
			a, b = a[1:], b[1:]
		}
		pairs := len(dst) / 2
		if pairs > 0 {
			zip(unsafe.Slice((*byte)(unsafe.Pointer(&dst[0])), 8*pairs), bits(a[:pairs]), bits(b[:pairs]))
		}
		if len(dst)%2 == 1 {
			dst[len(dst)-1] = a[pairs]
		}
		return
	}
	for r := range stride {
		q := 0
		o := r - pad%stride
		if o < 0 {
			o, q = o+stride, 1
		}
		for ; o < len(dst); o += stride {
			dst[o] = src[r*lds+q]
			q++
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
