package conv

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/kernels/gemm"
)

// Volume is a convolution over three spatial dimensions. A slice of the output is a two-dimensional
// convolution over the channels of all input slices under the kernel; these are contiguous in a
// volume of slices in NCHW16c or, of few channels, in (C, H, W) with zero borders. It is immutable.
type Volume struct {
	slice, out      Layout     // of one slice
	few             *NCHWInput // of few channels, or nil
	size            int        // number of elements of an input slice in the volume
	depth, outDepth int
	front, back     int // number of zero slices
	stride          int
	span            int // number of elements that an output slice reads
	kernel          interface {
		Run(level cpu.Level, par gemm.Par, y, x []float32, ep *BlockedEpilogue)
	}
}

// VolumeChannels is the number of input channels from which whole blocks of 16 are faster.
const VolumeChannels = 8

// NewVolume packs w of shape (Cout, Cin, Kernel…) for a checked shape with three spatial
// dimensions, one group and no dilation of the first dimension. bias may be nil.
func NewVolume(level cpu.Level, s *Shape, w, bias []float32) (*Volume, error) {
	if len(s.In) != 3 || s.Group != 1 || s.Dilation[0] != 1 && s.Kernel[0] > 1 {
		return nil,
			fail.Errorf("unsupported shape %+v, want three spatial dimensions, one group and no dilation of "+
				"the first dimension", *s)
	}
	kd, kh, kw := s.Kernel[0], s.Kernel[1], s.Kernel[2]
	below := func(i int) int {
		return max(0, (s.Out[i]-1)*s.Stride[i]-s.PadBegin[i]+(s.Kernel[i]-1)*s.Dilation[i]-(s.In[i]-1))
	}
	layout := func(c int) Layout {
		return NewLayout(c, s.In[1], s.In[2], s.PadBegin[1], s.PadBegin[2], below(1), below(2))
	}
	v := &Volume{slice: layout(s.Cin), out: NewLayout(s.Cout, s.Out[1], s.Out[2], 0, 0, 0, 0), depth: s.In[0],
		outDepth: s.Out[0], front: s.PadBegin[0], back: below(0), stride: s.Stride[0]}
	ci := v.slice.Blocks() * Lanes
	v.size = v.slice.Len()
	if s.Cin < VolumeChannels {
		ci = s.Cin
		l := &v.slice
		v.few = &NCHWInput{Cin: kd * ci, H: l.Top + l.H + l.Bottom, W: l.Left + l.W + l.Right, Out: v.out,
			StrideH: s.Stride[1], StrideW: s.Stride[2], DilationH: s.Dilation[1], DilationW: s.Dilation[2]}
		v.size = ci * v.few.H * v.few.W
	}
	v.span = kd * v.size
	// (Cout, kd·Cin, kh, kw), with Cin in whole blocks unless there are few
	taps := kh * kw
	flat := make([]float32, s.Cout*kd*ci*taps)
	for o := range s.Cout {
		for c := range s.Cin {
			for z := range kd {
				copy(flat[((o*kd+z)*ci+c)*taps:][:taps], w[((o*s.Cin+c)*kd+z)*taps:])
			}
		}
	}
	if v.few != nil {
		v.few.Weights = PackNCHWInput(level, flat, bias, kd*ci, s.Cout, kh, kw)
		v.kernel = v.few
		return v, nil
	}
	in := layout(kd * ci)
	if m := ChooseWinograd(level, kd*ci, s.Cout, s.Out[1], s.Out[2], 1); m > 0 && kh == 3 && kw == 3 &&
		allEqual(s.Stride[1:], 1) && allEqual(s.Dilation[1:], 1) {
		k := &Winograd{In: in, Out: v.out, Top: s.PadBegin[1], Left: s.PadBegin[2], Dilation: 1,
			Weights: PackWinograd(level, m, flat, bias, kd*ci, s.Cout)}
		v.kernel = k
		return v, k.Check()
	}
	k := &Direct{In: in, Out: v.out, StrideH: s.Stride[1], StrideW: s.Stride[2], DilationH: s.Dilation[1],
		DilationW: s.Dilation[2], Top: s.PadBegin[1], Left: s.PadBegin[2],
		Weights: PackWeights(level, flat, bias, kd*ci, s.Cout, 1, kh, kw)}
	v.kernel = k
	return v, k.Check()
}

// Slices returns the number of slices of the padded input, and the number of elements of one.
func (v *Volume) Slices() (n, size int) { return v.front + v.depth + v.back, v.size }

// Outputs returns the number of slices of the output, and the number of elements of one in NCHW16c.
func (v *Volume) Outputs() (n, size int) { return v.outDepth, v.out.Len() }

// Load writes slice z of the padded input from x of shape (C, D, H, W).
func (v *Volume) Load(level cpu.Level, volume, x []float32, z int) {
	dst := volume[z*v.size:][:v.size]
	h, w := v.slice.H, v.slice.W
	plane := h * w
	if z -= v.front; z < 0 || z >= v.depth {
		clear(dst)
		return
	}
	if v.few == nil {
		v.slice.FromPlanes(level, dst, x[z*plane:], v.depth*plane, 0, v.slice.Blocks())
		return
	}
	clear(dst)
	for c := range v.slice.C {
		to, from := dst[(c*v.few.H+v.slice.Top)*v.few.W+v.slice.Left:], x[(c*v.depth+z)*plane:][:plane]
		for i := range h {
			copy(to[i*v.few.W:], from[i*w:][:w])
		}
	}
}

// Run computes slice z of the output y of shape (C, D, H, W). buf holds the slice in NCHW16c. par
// divides the slice; if it is nil, one call computes everything.
func (v *Volume) Run(level cpu.Level, par gemm.Par, y, volume, buf []float32, z int, ep *BlockedEpilogue) {
	v.kernel.Run(level, par, buf, volume[z*v.stride*v.size:][:v.span], ep)
	plane := v.out.H * v.out.W
	v.out.ToPlanes(level, y[z*plane:], buf, v.outDepth*plane, 0, v.out.Blocks())
}
