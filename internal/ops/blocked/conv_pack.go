package blocked

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/conv"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/kit/window"
	"github.com/onward-ml/onward/tensor"
)

// convPack is the way in which the weights of a Conv are packed: the kernel, and the tile size of
// Winograd, the number of groups or of columns, whether the axes are exchanged, and the taps.
type convPack struct {
	kind, param int
	turned      bool
	taps        taps
}

const (
	packNCHWInput = iota
	packDepthwise
	packGrouped
	packPermuted
	packWinograd
	packDirect
	packPerTap
	packColumns
)

// convWeights packs the weights of a convolution from cin channels in one way.
type convWeights struct {
	convPack
	cv      *ops.Conv
	w, bias *tensor.Tensor // bias may be nil
	cin     int
	packs   *ir.Packs // has weights that are packed already, or is nil
}

// choose sets the way for images in layouts in and out, of which C, H and W matter, and reduces the
// padding of g to that of the taps. permuted says that the input's channels are in another order.
func (p *convWeights) choose(in, out Layout, g *window.ConvGeometry, permuted bool) {
	cv, s := p.cv, p.w.Shape()
	m, sh, sw, dh, dw := s[0], cv.Stride(0), cv.Stride(1), cv.Dilation(0), cv.Dilation(1)
	t := tapsInside(cv, s, in.H, in.W, g)
	columns := columnsOf(cv, t, m, g)
	perTap := conv.PerTap{In: in, Out: out, KH: t.kh, KW: t.kw, DilationH: dh, DilationW: dw, Top: g.Top, Left: g.Left}
	p.convPack = convPack{kind: packDirect, param: cv.Group, taps: t}
	switch {
	case ReadsNCHW(in.C, cv.Group):
		p.kind, p.param = packNCHWInput, 0
		if columns > 1 {
			p.param = columns
		}
	case isDepthwise(cv, in.C, m):
		p.kind, p.param = packDepthwise, 0
	case columns > 1 && !permuted:
		p.kind, p.param = packColumns, columns
	case !permuted && conv.GroupedPays(cpu.Active(), in.C, m, cv.Group, t.kh, t.kw):
		p.kind = packGrouped
	case permuted || PermutesInput(cv, s, *g) && conv.PermutedPointwisePays(in.C, m, cv.Group):
		p.kind = packPermuted
	case cv.Group > 1 || sh > 1 || sw > 1:
	case t.kh == 3 && t.kw == 3 && dh == dw && max(g.Top, g.Left) <= 2*dh &&
		conv.ChooseWinograd(cpu.Active(), in.C, m, out.H, out.W, dh) > 0:
		p.kind, p.param = packWinograd, conv.ChooseWinograd(cpu.Active(), in.C, m, out.H, out.W, dh)
	case perTap.Pays():
		p.kind, p.param = packPerTap, 0
	}
}

// SameForSizes packs the weights m×c/group×kh×kw and the bias, which may be nil, of a convolution
// as [NewConv] does, if that is the same for inputs of each of the sizes: height and width. It
// returns nil if it is not, else the function that packs them.
func SameForSizes(cv *ops.Conv, w, bias *tensor.Tensor, sizes [][2]int, packs *ir.Packs) (pack func()) {
	s := w.Shape()
	if len(s) != 4 || w.DType() != tensor.TypeFloat32 || bias != nil && bias.Len() != s[0] {
		return nil
	}
	p := convWeights{cv: cv, w: w, bias: bias, cin: s[1] * cv.Group, packs: packs}
	for i, hw := range sizes {
		g, err := cv.Geometry2(hw[0], hw[1], s[2:])
		if err != nil || hw[1] == 1 { // the axes may be exchanged
			return nil
		}
		first := p.convPack
		p.choose(Layout{C: p.cin, H: hw[0], W: hw[1]}, Layout{C: s[0], H: g.OutH, W: g.OutW}, &g, false)
		if i > 0 && p.convPack != first {
			return nil
		}
	}
	return p.pack
}

// pack packs the weights into packs.
func (p *convWeights) pack() {
	switch p.kind {
	case packDepthwise:
		p.depthwise()
	case packGrouped:
		p.grouped()
	case packPermuted:
		_, _ = p.permuted()
	case packWinograd:
		p.winograd()
	default:
		p.weights()
	}
}

// packed returns packed weights, those of packs if it has them.
func packed[T interface{ Bytes() int64 }](p *convWeights, pack func(w, bias []float32) T) T {
	v, _ := ir.Packed(p.packs, p.convPack, p.w, p.bias, func() (T, int64, error) {
		v := pack(p.data())
		return v, v.Bytes(), nil
	})
	return v
}

// data returns the weights of the taps, and the bias or nil.
func (p *convWeights) data() (w, bias []float32) {
	if p.bias != nil {
		bias = tensor.MustData[float32](p.bias)
	}
	return p.taps.of(tensor.MustData[float32](p.w), p.w.Shape()), bias
}

// kernel returns the size of the kernel, for images with the axes exchanged if they are.
func (p *convWeights) kernel() (kh, kw int) {
	if p.turned {
		return 1, p.taps.kh
	}
	return p.taps.kh, p.taps.kw
}

// wide returns the weights and bias for columns of a pixel as channels, and the width of their
// kernel.
func (p *convWeights) wide(w, bias []float32) ([]float32, []float32, int) {
	kh, kw := p.kernel()
	stride := p.cv.Stride(1)
	w, bias = conv.WideColumns(w, bias, p.cin, p.w.Dim(0), kh, kw, stride, p.param)
	return w, bias, kw + (p.param-1)*stride
}

func (p *convWeights) depthwise() *conv.DepthwiseWeights {
	return packed(p, func(w, bias []float32) *conv.DepthwiseWeights {
		kh, kw := p.kernel()
		return conv.PackDepthwise(w, bias, p.w.Dim(0), kh, kw)
	})
}

func (p *convWeights) grouped() *conv.GroupedWeights {
	return packed(p, func(w, bias []float32) *conv.GroupedWeights {
		kh, kw := p.kernel()
		return conv.PackGrouped(w, bias, p.w.Dim(0), p.w.Dim(0)/p.cv.Group, kh, kw)
	})
}

func (p *convWeights) permuted() (*conv.PermutedWeights, error) {
	return ir.Packed(p.packs, p.convPack, p.w, p.bias, func() (*conv.PermutedWeights, int64, error) {
		w, bias := p.data()
		v, err := conv.PackPermuted(w, bias, p.cin, p.w.Dim(0), p.cv.Group)
		return v, v.Bytes(), err
	})
}

func (p *convWeights) winograd() *conv.WinogradWeights {
	return packed(p, func(w, bias []float32) *conv.WinogradWeights {
		return conv.PackWinograd(cpu.Active(), p.param, w, bias, p.cin, p.w.Dim(0))
	})
}

// weights packs for the kernels over NCHW, for direct ones, for those over single taps, and for
// columns.
func (p *convWeights) weights() *conv.Weights {
	return packed(p, func(w, bias []float32) *conv.Weights {
		level, m := cpu.Active(), p.w.Dim(0)
		kh, kw := p.kernel()
		if p.kind == packColumns || p.kind == packNCHWInput && p.param > 1 {
			w, bias, kw = p.wide(w, bias)
			m *= p.param
		}
		switch p.kind {
		case packNCHWInput:
			return conv.PackNCHWInput(level, w, bias, p.cin, m, kh, kw)
		case packPerTap:
			return conv.PackPerTap(level, w, bias, p.cin, m, kh, kw)
		}
		return conv.PackWeights(level, w, bias, p.cin, m, p.cv.Group, kh, kw)
	})
}
