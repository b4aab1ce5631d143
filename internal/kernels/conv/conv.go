// Package conv computes convolutions and pooling.
//
// It has two families of functions. Those over [Shape] support any number of spatial dimensions,
// groups, strides, dilations and paddings in ONNX's layout (N, C, spatial…). They copy the input
// into panels (im2col) and multiply with package gemm. Those over [Layout] support two spatial
// dimensions in the blocked layout NCHW16c and are the fast ones: direct, Winograd, depthwise, and
// the NCHW-input convolution.
//
// Functions trust their arguments: callers check shapes with [Shape.Check], and slice lengths,
// before.
package conv

//go:generate go -C ../_asm run . conv

import (
	"sync"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/kernels/gemm"
)

// Shape describes a convolution with len(In) spatial dimensions. The weights are
// (Cout, Cin/Group, Kernel…), the input (N, Cin, In…), the output (N, Cout, Out…).
type Shape struct {
	N, Cin, Cout, Group int
	In, Kernel          []int
	Stride, Dilation    []int
	PadBegin, PadEnd    []int
	Out                 []int // set by Check
}

// Check validates the shape and computes Out. Every spatial slice must have the length of In.
func (s *Shape) Check() error {
	n := len(s.In)
	for _, v := range [][]int{s.Kernel, s.Stride, s.Dilation, s.PadBegin, s.PadEnd} {
		if len(v) != n {
			return fail.Errorf("convolution over %d spatial dimensions: kernel %v, strides %v, dilations %v and pads "+
				"%v, %v must have as many values", n, s.Kernel, s.Stride, s.Dilation, s.PadBegin, s.PadEnd)
		}
	}
	if s.Group < 1 || s.Cin%s.Group != 0 || s.Cout%s.Group != 0 {
		return fail.Errorf("group %d does not divide %d input and %d output channels", s.Group, s.Cin, s.Cout)
	}
	s.Out = make([]int, n)
	for i := range n {
		if s.Kernel[i] < 1 || s.Stride[i] < 1 || s.Dilation[i] < 1 {
			return fail.Errorf("dimension %d: kernel %d, stride %d and dilation %d must be at least 1", i, s.Kernel[i],
				s.Stride[i], s.Dilation[i])
		}
		span := s.In[i] + s.PadBegin[i] + s.PadEnd[i] - s.Dilation[i]*(s.Kernel[i]-1) - 1
		if span < 0 {
			return fail.Errorf("dimension %d: a kernel of %d with dilation %d does not fit into %d + pads %d, %d", i,
				s.Kernel[i], s.Dilation[i], s.In[i], s.PadBegin[i], s.PadEnd[i])
		}
		s.Out[i] = span/s.Stride[i] + 1
	}
	return nil
}

func product(v []int) int {
	p := 1
	for _, x := range v {
		p *= x
	}
	return p
}

// Epilogue is applied to a sum before it is stored, in the order of the fields.
type Epilogue[T gemm.Number] struct {
	Bias   []T // Cout values, or nil
	Add    []T // the layout of the output, or nil; must not overlap it
	Act    gemm.Activation
	Lo, Hi T // of gemm.Clip
}

// NaiveGeneric computes y = conv(x, w) one output at a time. It is slow and simple, for tests.
//
//	for each n, o, p { // image, output channel, output position
//		sum := bias[o]
//		for each c of o's group, t { // input channel, kernel tap
//			sum += x[n, c, p*stride-pad+t*dilation] * w[o, c, t]
//		}
//		y[n, o, p] = act(sum + add[n, o, p])
//	}
func NaiveGeneric[T gemm.Number](s *Shape, y, x, w []T, ep *Epilogue[T]) {
	in, out, taps := product(s.In), product(s.Out), product(s.Kernel)
	cg, og := s.Cin/s.Group, s.Cout/s.Group
	var offs [1]int
	for p := range out {
		for n := range s.N {
			for o := range s.Cout {
				var sum T
				if ep.Bias != nil {
					sum = ep.Bias[o]
				}
				for t := range taps {
					s.tapOffsets(offs[:], p, t)
					if offs[0] < 0 {
						continue
					}
					for c := range cg {
						sum += x[(n*s.Cin+o/og*cg+c)*in+offs[0]] * w[(o*cg+c)*taps+t]
					}
				}
				i := (n*s.Cout+o)*out + p
				if ep.Add != nil {
					sum += ep.Add[i]
				}
				switch ep.Act {
				case gemm.Relu:
					sum = max(sum, 0)
				case gemm.Clip:
					sum = min(max(sum, ep.Lo), ep.Hi)
				}
				y[i] = sum
			}
		}
	}
}

// tapOffsets sets offs[j] to the offset in an input plane that tap t reads for output p+j (linear
// indices), or to -1 in the padding.
func (s *Shape) tapOffsets(offs []int, p, t int) {
	n := len(s.In)
	if n == 0 {
		clear(offs)
		return
	}
	last := n - 1
	kx := t % s.Kernel[last]
	t /= s.Kernel[last]
	for j := 0; j < len(offs); {
		// The other outputs of the row have the same coordinates in the other dimensions.
		x := (p + j) % s.Out[last]
		run := min(len(offs)-j, s.Out[last]-x)
		rest, tt := (p+j)/s.Out[last], t
		base, scale, inside := 0, s.In[last], true
		for d := last - 1; d >= 0; d-- {
			i := rest%s.Out[d]*s.Stride[d] - s.PadBegin[d] + tt%s.Kernel[d]*s.Dilation[d]
			inside = inside && i >= 0 && i < s.In[d]
			base += i * scale
			scale *= s.In[d]
			rest /= s.Out[d]
			tt /= s.Kernel[d]
		}
		for i := range run {
			ix := (x+i)*s.Stride[last] - s.PadBegin[last] + kx*s.Dilation[last]
			offs[j+i] = -1
			if inside && ix >= 0 && ix < s.In[last] {
				offs[j+i] = base + ix
			}
		}
		j += run
	}
}

// im2col writes the panel of 32 outputs from p on, [channel][tap][32], for the input planes
// at x.
func im2col[T gemm.Number](s *Shape, dst, x []T, channels, in, taps, p, width int) {
	var offs [gemm.PanelWidth]int
	for t := range taps {
		o := offs[:width]
		s.tapOffsets(o, p, t)
		step := 1
		if width > 1 {
			step = o[1] - o[0]
		}
		even := o[0] >= 0 && step > 0
		for j, v := range o {
			even = even && v == o[0]+j*step
		}
		d := dst[t*gemm.PanelWidth:]
		for c := range channels {
			r := d[:gemm.PanelWidth]
			src := x[c*in : (c+1)*in]
			switch {
			case even && step == 1:
				copy(r[:width], src[o[0]:])
			case even:
				i := o[0]
				for j := range width {
					r[j] = src[i]
					i += step
				}
			default:
				for j, v := range o {
					if v < 0 {
						r[j] = 0
					} else {
						r[j] = src[v]
					}
				}
			}
			clear(r[width:])
			if c+1 < channels {
				d = d[taps*gemm.PanelWidth:]
			}
		}
	}
}

// F32 computes a convolution of float32 in ONNX's layout at the given level. par distributes
// images, groups and panels of outputs; if it is nil, one call computes everything.
func F32(level cpu.Level, par gemm.Par, s *Shape, y, x, w []float32, ep *Epilogue[float32]) {
	run(par, s, y, x, w, ep, &poolF32, func(a *gemm.Args[float32], b gemm.Block) { gemm.F32(level, a, b) })
}

// Generic is [F32] in plain Go, for any element type.
func Generic[T gemm.Number](par gemm.Par, s *Shape, y, x, w []T, ep *Epilogue[T]) {
	run(par, s, y, x, w, ep, new(sync.Pool), func(a *gemm.Args[T], b gemm.Block) { gemm.Generic(a, b) })
}

var poolF32 sync.Pool

func run[T gemm.Number](par gemm.Par, s *Shape, y, x, w []T, ep *Epilogue[T], pool *sync.Pool,
	mul func(*gemm.Args[T], gemm.Block)) {
	in, out, taps := product(s.In), product(s.Out), product(s.Kernel)
	cg, og := s.Cin/s.Group, s.Cout/s.Group
	k := cg * taps
	panels := gemm.Panels(out)
	pointwise := taps == 1 && in == out && allEqual(s.Stride, 1) && allEqual(s.PadBegin, 0) && allEqual(s.PadEnd, 0)
	work := func(lo, hi int) {
		var buf []T
		if !pointwise {
			b, _ := pool.Get().(*[]T)
			if b == nil || cap(*b) < k*gemm.PanelWidth {
				b = new(make([]T, k*gemm.PanelWidth))
			}
			defer pool.Put(b)
			buf = (*b)[:k*gemm.PanelWidth]
		}
		var a, b gemm.Args[T] // allocated once for all panels
		for u := lo; u < hi; {
			image, p := u/panels, u%panels
			n := min(hi-u, panels-p) // panels of one image and group
			g := image % s.Group
			image /= s.Group
			planes := x[(image*s.Cin+g*cg)*in:][:cg*in]
			first := (image*s.Cout + g*og) * out
			a = gemm.Args[T]{M: og, K: k, A: w[g*og*k:], LdA: k, C: y[first:][:og*out], LdC: out}
			if ep.Bias != nil {
				a.BiasRow = ep.Bias[g*og:]
			}
			a.Act, a.Lo, a.Hi = ep.Act, ep.Lo, ep.Hi
			if ep.Add != nil {
				a.Add, a.LdAdd = ep.Add[first:], out
			}
			if pointwise {
				a.N, a.B, a.LdB = out, planes, in
				mul(&a, gemm.Block{Row1: og, Panel0: p, Panel1: p + n})
				u += n
				continue
			}
			for range n {
				at := p * gemm.PanelWidth
				b = a
				b.N = min(gemm.PanelWidth, out-at)
				im2col(s, buf, planes, cg, in, taps, at, b.N)
				b.B, b.Packed = buf, true
				b.C = a.C[at:]
				if b.Add != nil {
					b.Add = a.Add[at:]
				}
				mul(&b, gemm.Block{Row1: og, Panel1: 1})
				p++
				u++
			}
		}
	}
	if units := s.N * s.Group * panels; par == nil {
		work(0, units)
	} else {
		par(units, work)
	}
}

func allEqual(v []int, x int) bool {
	for _, y := range v {
		if y != x {
			return false
		}
	}
	return true
}
