package blocked

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/conv"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/ops/kit"
)

// ScaledConv is a 1×1 Conv of images whose channels are scaled, as in squeeze-and-excitation. It
// convolves input 0 times input 1, which has one pixel per image. Input 2, if any, is added before
// the activation. It scales the weights in place of the images.
type ScaledConv struct {
	mul  *Binary
	conv *Conv
}

// NewScaledConv fuses a Mul and the Conv that reads it. It returns nil if they cannot be fused, or
// if there are not many fewer weights than elements of the image.
func NewScaledConv(mul *Binary, cv *Conv) *ScaledConv {
	d, ok := cv.kernel.(*conv.Direct)
	if !ok || !mul.product || !mul.perChannel() || mul.Act != (kit.Activation{}) || mul.A != mul.Out ||
		mul.Out.C != d.In.C || !d.Scales() ||
		2*d.Out.C > mul.A.H*mul.A.W {
		return nil
	}
	return &ScaledConv{mul, cv}
}

// Rounded implements [ir.Rounder]. Rounded weights cannot be scaled, so the images are.
func (s *ScaledConv) Rounded() ir.Operator {
	if r, ok := s.conv.Rounded().(*Conv); ok {
		return &ScaledConv{s.mul, r}
	}
	return nil
}

// Infer infers the blocked type.
func (s *ScaledConv) Infer(c *ir.InferContext) error { return s.conv.Infer(c) }

// Run convolves image by image; the kernel splits an image over threads.
func (s *ScaledConv) Run(c *ir.Call) error {
	n, x, err := blockedIn(c, 0, &s.mul.A)
	if err != nil {
		return err
	}
	ns, scale, err := blockedIn(c, 1, &s.mul.B)
	if err != nil {
		return err
	}
	if ns != n {
		return fail.Errorf("inputs have %d and %d images, want equal numbers", n, ns)
	}
	add, err := s.conv.residual(c, 2, n)
	if err != nil {
		return err
	}
	y, err := blockedOut(c, n, &s.conv.out)
	if err != nil {
		return err
	}
	d, ok := s.conv.kernel.(*conv.Direct)
	if !ok {
		scaled, err := ir.LaunchScratchOf[float32](c, len(x))
		if err != nil {
			return err
		}
		s.mul.combine(c, n, scaled, x, scale)
		s.conv.images(c, n, s.mul.A.Len(), y, scaled, add, s.conv.same)
		return nil
	}
	size := len(d.Weights.Data)
	weights, err := ir.LaunchScratchOf[float32](c, n*size)
	if err != nil {
		return err
	}
	s.conv.images(c, n, s.mul.A.Len(), y, x, add, func(i int, par gemm.Par) blockedKernel {
		return d.Scaled(cpu.Active(), par, weights[i*size:][:size], scale[i*s.mul.B.Len():], s.mul.B.Block)
	})
	return nil
}
