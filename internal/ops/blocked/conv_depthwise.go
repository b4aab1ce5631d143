package blocked

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/conv"
	"github.com/onward-ml/onward/internal/kernels/gemm"
)

// ConvDepthwise is a Conv fused with the depthwise Conv of its result, over a ring of rows. Input
// 1, if any, is added before the activation of the second.
type ConvDepthwise struct {
	First, Second *Conv
	kernel        *conv.FusedDepthwise
}

// NewConvDepthwise fuses two convolutions. It returns nil if they cannot be fused, or if the
// intermediate result is as fast in memory.
func NewConvDepthwise(first, second *Conv) *ConvDepthwise {
	dw, ok := second.kernel.(*conv.Depthwise)
	if !ok || first.HasAdd || !conv.FusedDepthwisePays(dw) {
		return nil
	}
	k, err := conv.NewFusedDepthwise(first.kernel, dw)
	if err != nil { // another kind of kernel
		return nil
	}
	return &ConvDepthwise{First: first, Second: second, kernel: k}
}

// Rounded implements [ir.Rounder].
func (r *ConvDepthwise) Rounded() ir.Operator {
	k := r.kernel.Rounded(cpu.Active())
	if k == nil {
		return nil
	}
	first := *r.First
	first.kernel = nil // frees the float32 weights
	return &ConvDepthwise{First: &first, Second: r.Second, kernel: k}
}

// Infer infers the blocked type.
func (r *ConvDepthwise) Infer(c *ir.InferContext) error { return inferBlocked(c, &r.Second.out) }

// Run convolves image by image; the kernel splits an image over threads.
func (r *ConvDepthwise) Run(c *ir.Call) error {
	n, size, x, err := r.First.input(c)
	if err != nil {
		return err
	}
	add, err := r.Second.residual(c, 1, n)
	if err != nil {
		return err
	}
	out := &r.Second.out
	y, err := blockedOut(c, n, out)
	if err != nil {
		return err
	}
	eachImage(c, n, size+out.Len(), func(i, threads int, par gemm.Par) {
		first, ep := r.First.epilogue(threads, nil, 0), r.Second.epilogue(threads, add, i)
		first.Channels = 0 // each channel of the second convolution reads its own
		r.kernel.Run(cpu.Active(), par, y[i*out.Len():][:out.Len()], x[i*size:][:size], first, ep)
	})
	return nil
}
