package blocked

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/conv"
	"github.com/onward-ml/onward/internal/kernels/gemm"
)

// SqueezeExcite multiplies the channels of images by factors that two 1×1 convolutions make of
// their means, and may be followed by the 1×1 convolution of the product, whose input 1, if any, is
// added before its activation.
type SqueezeExcite struct {
	first, second *Conv
	mul           *Binary
	conv          *ScaledConv // or nil
	kernel        *conv.Excite
}

// NewSqueezeExcite fuses the mean of planes, two convolutions, and a Mul, which may be the first
// part of a ScaledConv. It returns nil if they cannot be fused, or if there are many more weights
// than elements of the image: a convolution of several pixels reads them once for all images.
func NewSqueezeExcite(pool *GlobalPool, first, second *Conv, mul *Binary, scaled *ScaledConv) *SqueezeExcite {
	if scaled != nil {
		mul = scaled.mul
	}
	a, b := ofPixel(first), ofPixel(second)
	if a == nil || b == nil || first.HasAdd || second.HasAdd || pool.Max || !mul.product || !mul.perChannel() ||
		mul.A != pool.In || mul.A.C != mul.Out.C || first.out.C > 2*pool.In.H*pool.In.W {
		return nil
	}
	k, err := conv.NewExcite(pool.In, a, b)
	if err != nil { // another kind of convolution
		return nil
	}
	return &SqueezeExcite{first: first, second: second, mul: mul, conv: scaled, kernel: k}
}

// ofPixel returns the kernel of a convolution that reads all channels of a block together, or nil.
func ofPixel(v *Conv) *conv.Direct {
	switch k := v.kernel.(type) {
	case *conv.Direct:
		return k
	case *conv.PermutedPointwise:
		return k.Direct()
	case *conv.NCHWInput:
		return k.Direct()
	}
	return nil
}

// Rounded implements [ir.Rounder]. The factors stay in float32.
func (s *SqueezeExcite) Rounded() ir.Operator {
	if s.conv == nil {
		return nil
	}
	r, ok := s.conv.Rounded().(*ScaledConv)
	if !ok {
		return nil
	}
	c := *s
	c.conv = r
	return &c
}

// Infer infers the blocked type.
func (s *SqueezeExcite) Infer(c *ir.InferContext) error {
	if s.conv != nil {
		return s.conv.Infer(c)
	}
	return s.mul.Infer(c)
}

// Run computes image by image; the kernels split an image over threads.
func (s *SqueezeExcite) Run(c *ir.Call) error {
	n, x, err := blockedIn(c, 0, &s.mul.A)
	if err != nil {
		return err
	}
	size := s.kernel.Work(c.Threads())
	work, err := ir.LaunchScratchOf[float32](c, n*size)
	if err != nil {
		return err
	}
	if s.conv != nil {
		return s.convolve(c, n, x, work)
	}
	y, err := blockedOut(c, n, &s.mul.Out)
	if err != nil {
		return err
	}
	in, out := s.mul.A.Len(), s.mul.Out.Len()
	eachImage(c, n, in+out, func(i, threads int, par gemm.Par) {
		s.scaleImage(threads, par, work[i*size:][:size], y[i*out:][:out], x[i*in:][:in])
	})
	return nil
}

// excite runs the kernel for one image.
func (s *SqueezeExcite) excite(threads int, par gemm.Par, work, x []float32, pieces int,
	apply func(factors []float32, block, blocks, lo, hi int)) {
	s.kernel.Run(cpu.Active(), par, threads, work, x, s.first.epilogue(threads, nil, 0),
		s.second.epilogue(threads, nil, 0), pieces, apply)
}

// scaleImage writes the product of one image and its factors.
func (s *SqueezeExcite) scaleImage(threads int, par gemm.Par, work, y, x []float32) {
	m := s.mul
	rows := 1
	if m.A.Flat() && m.Out.Flat() {
		rows = m.A.H
	}
	s.excite(threads, par, work, x, m.A.H, func(factors []float32, block, blocks, lo, hi int) {
		for b := range blocks {
			f := (*[conv.Lanes]float32)(factors[b*conv.Lanes:])
			for row := lo; row < hi; row += rows {
				m.combinePixel(y, x, f, block+b, row, min(rows, hi-row)*m.A.W*conv.Lanes)
			}
		}
	})
}

// convolve convolves n images whose channels are scaled. It scales the weights in place of the
// images, unless they are rounded.
func (s *SqueezeExcite) convolve(c *ir.Call, n int, x, work []float32) error {
	cv := s.conv.conv
	add, err := cv.residual(c, 1, n)
	if err != nil {
		return err
	}
	y, err := blockedOut(c, n, &cv.out)
	if err != nil {
		return err
	}
	d, direct := cv.kernel.(*conv.Direct)
	in, size, scaled := s.mul.A.Len(), len(work)/max(n, 1), s.mul.Out.Len()
	if direct {
		scaled = len(d.Weights.Data)
	}
	data, err := ir.LaunchScratchOf[float32](c, n*scaled)
	if err != nil {
		return err
	}
	eachImage(c, n, in+cv.out.Len(), func(i, threads int, par gemm.Par) {
		work, x, data := work[i*size:][:size], x[i*in:][:in], data[i*scaled:][:scaled]
		y, ep := y[i*cv.out.Len():][:cv.out.Len()], cv.epilogue(threads, add, i)
		if !direct {
			s.scaleImage(threads, par, work, data, x)
			cv.kernel.Run(cpu.Active(), par, y, data, ep)
			return
		}
		s.excite(threads, par, work, x, conv.Lanes, func(factors []float32, block, blocks, lo, hi int) {
			lo, hi = lo*blocks, hi*blocks
			d.ScaleChannels(cpu.Active(), data, factors[lo:hi], block*conv.Lanes+lo)
		})
		d.With(data).Run(cpu.Active(), par, y, x, ep)
	})
	return nil
}
