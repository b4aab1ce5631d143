package blocked

import (
	"slices"
	"sync/atomic"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/conv"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/window"
	"github.com/onward-ml/onward/tensor"
)

// DepthwiseNHWC is a depthwise convolution of float32 that keeps the size of images N×H×W×C, or of
// tokens N×H·W×C if Tokens is set:
//
//	Y = fn(act(conv(X, W) + B))
//
// The inputs are X, W of shape C×1×KH×KW, the optional B and, for tokens, the shape to which Tokens
// brings a tensor of N×C×H·W: that of images with the channels first.
type DepthwiseNHWC struct {
	Conv   ops.FusedConv // without Z
	Tokens *ops.Reshape  // or nil
	Then   kit.VecUnary  // fn, or nil

	last atomic.Pointer[sizedDepthwise]
}

// sizedDepthwise is a convolution for images of a size.
type sizedDepthwise struct {
	*conv.DepthwisePixels
	image []int // C, H, W
}

// Infer keeps the shape.
func (d *DepthwiseNHWC) Infer(c *ir.InferContext) error { return kit.SameAsInput(c) }

// WithThen returns the convolution followed by fn.
func (d *DepthwiseNHWC) WithThen(fn kit.VecUnary) *DepthwiseNHWC {
	return &DepthwiseNHWC{Conv: d.Conv, Tokens: d.Tokens, Then: fn}
}

// Run computes block by block of channels.
func (d *DepthwiseNHWC) Run(c *ir.Call) error {
	x := c.Tensor(0)
	image, err := d.imageOf(c)
	if err != nil {
		return err
	}
	y, err := c.Output(0, tensor.TypeFloat32, x.Shape()...)
	if err != nil || y.Len() == 0 {
		return err
	}
	s, err := d.sized(c, image)
	if err != nil {
		return err
	}
	n, blocks, size := x.Dim(0), s.Blocks(), s.Scratch()
	scratch, err := ir.ScratchOf[float32](c, kit.WorkspaceCount(c, n*blocks)*size)
	if err != nil {
		return err
	}
	ep := conv.BlockedEpilogue{Act: d.Conv.Act.Gemm(), Lo: d.Conv.Act.Lo, Hi: d.Conv.Act.Hi}
	if d.Then != nil {
		ep.Map = func(dst, src []float32, _ int) { d.Then(cpu.Active(), dst, src) }
	}
	xs, ys, pixels := tensor.MustData[float32](x), tensor.MustData[float32](y), kit.Product(image)
	return kit.InWorkspaces(c, n*blocks, func(ws, i int) error {
		img, b := i/blocks*pixels, i%blocks
		s.Run(cpu.Active(), ys[img:][:pixels], xs[img:][:pixels], scratch[ws*size:][:size], b, &ep)
		return nil
	})
}

// imageOf returns the channels, the height and the width of the images.
func (d *DepthwiseNHWC) imageOf(c *ir.Call) ([]int, error) {
	s := c.Tensor(0).Shape()
	if d.Tokens == nil {
		if len(s) != 4 {
			return nil, fail.Errorf("input has shape %v, want images N×H×W×C", s)
		}
		return []int{s[3], s[1], s[2]}, nil
	}
	if len(s) != 3 {
		return nil, fail.Errorf("input has shape %v, want tokens N×L×C", s)
	}
	image, err := d.Tokens.Resolve([]int{s[0], s[2], s[1]}, c.Tensor(3))
	if err != nil {
		return nil, err
	}
	if len(image) != 4 || image[0] != s[0] || image[1] != s[2] {
		return nil, fail.Errorf("tokens of shape %v become images of shape %v, want %d of %d channels",
			s, image, s[0], s[2])
	}
	return image[1:], nil
}

// sized returns the convolution for images of a size, which it keeps for the next run.
func (d *DepthwiseNHWC) sized(c *ir.Call, image []int) (*sizedDepthwise, error) {
	if s := d.last.Load(); s != nil && slices.Equal(s.image, image) {
		return s, nil
	}
	w := c.Tensor(1)
	var bias []float32
	if b := c.Tensor(2); b != nil {
		if err := window.ConvBias(b.Shape(), w.Dim(0)); err != nil {
			return nil, err
		}
		bias = tensor.MustData[float32](b)
	}
	v, err := window.NewConvShape(&d.Conv.Window, d.Conv.Group, append([]int{1}, image...), w.Shape())
	if err != nil {
		return nil, err
	}
	if !slices.Equal(v.Out, v.In) {
		return nil, fail.Errorf("convolution changes the size of images from %v to %v", v.In, v.Out)
	}
	p, err := conv.NewDepthwisePixels(&conv.Shape{N: 1, Cin: v.C, Cout: v.M, Group: v.Group, In: v.In, Kernel: v.Kernel,
		Stride: v.Stride, Dilation: v.Dilation, PadBegin: v.Before, PadEnd: v.After, Out: v.Out},
		tensor.MustData[float32](w), bias)
	if err != nil {
		return nil, err
	}
	s := &sizedDepthwise{p, image}
	d.last.Store(s)
	return s, nil
}
