package ops

import (
	"slices"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/conv"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/window"
	"github.com/onward-ml/onward/tensor"
)

// volumeConv is a Conv or FusedConv of float32 over three spatial axes of known sizes, with
// constant weights and bias.
type volumeConv struct {
	FusedConv
	v       *conv.Volume
	in, out []int // without the batch dimension
}

// prepareVolume packs the weights of a convolution over three axes. It returns nil if the
// convolution is not supported.
func prepareVolume(f *FusedConv, in []tensor.Value, types []ir.Type) (ir.Operator, []int, error) {
	w, ok := in[1].(*tensor.Tensor)
	if !ok || w.DType() != tensor.TypeFloat32 || w.Rank() != 5 || len(types[0].Shape) != 5 ||
		w.Dim(1) < conv.VolumeChannels && kit.Product(w.Shape()[2:]) == 1 { // pointwise
		return nil, nil, nil
	}
	shape, ok := ir.Ints(types[0].Shape[1:])
	if !ok {
		return nil, nil, nil
	}
	drop := []int{1}
	var bias []float32
	if len(types) > 2 && types[2].Known() {
		b, ok := in[2].(*tensor.Tensor)
		if !ok || !slices.Equal(b.Shape(), []int{w.Dim(0)}) {
			return nil, nil, nil
		}
		bias, drop = tensor.MustData[float32](b), append(drop, 2)
	}
	s, err := window.NewConvShape(&f.Window, f.Group, append([]int{1}, shape...), w.Shape())
	if err != nil || kit.Product(s.Shape) == 0 || kit.Product(shape) == 0 || s.Group != 1 ||
		s.Dilation[0] != 1 || s.WideBorder() {
		return nil, nil, nil // Run reports the error
	}
	v, err := conv.NewVolume(cpu.Active(), &conv.Shape{N: 1, Cin: s.C, Cout: s.M, Group: 1, In: s.In, Kernel: s.Kernel,
		Stride: s.Stride, Dilation: s.Dilation,
		PadBegin: s.Before, PadEnd: s.After, Out: s.Out}, tensor.MustData[float32](w), bias)
	if err != nil {
		return nil, nil, err
	}
	return &volumeConv{FusedConv: *f, v: v, in: shape, out: s.Shape[1:]}, drop, nil
}

// Run computes slice by slice.
func (f *volumeConv) Run(c *ir.Call) error {
	x := c.Tensor(0)
	if x.Rank() != 5 || !slices.Equal(x.Shape()[1:], f.in) {
		return fail.Errorf("input has shape %v, want [N %d %d %d %d]", x.Shape(), f.in[0], f.in[1], f.in[2], f.in[3])
	}
	n := x.Dim(0)
	y, err := c.Output(0, tensor.TypeFloat32, append([]int{n}, f.out...)...)
	if err != nil || y.Len() == 0 {
		return err
	}
	slices, size := f.v.Slices()
	outs, outSize := f.v.Outputs()
	images, par := 1, gemm.Par(nil) // images at the same time, and what divides slices
	if outs < c.Threads() {
		images, par = kit.WorkspaceCount(c, n), c.Par()
	}
	volume, err := ir.ScratchOf[float32](c, images*slices*size)
	if err != nil {
		return err
	}
	buf, err := ir.ScratchOf[float32](c, max(images, kit.WorkspaceCount(c, outs))*outSize)
	if err != nil {
		return err
	}
	ep := conv.BlockedEpilogue{}
	if !f.adds(c) {
		ep = conv.BlockedEpilogue{Act: f.Act.Gemm(), Lo: f.Act.Lo, Hi: f.Act.Hi}
	}
	xs, ys := tensor.MustData[float32](x), tensor.MustData[float32](y)
	level := cpu.Active()
	from := func(i int) []float32 { return xs[i*kit.Product(f.in):][:kit.Product(f.in)] }
	to := func(i int) []float32 { return ys[i*kit.Product(f.out):][:kit.Product(f.out)] }
	if images > 1 {
		err = kit.InWorkspaces(c, n, func(ws, i int) error {
			v := volume[ws*slices*size:][:slices*size]
			for z := range slices {
				f.v.Load(level, v, from(i), z)
			}
			for z := range outs {
				f.v.Run(level, nil, to(i), v, buf[ws*outSize:][:outSize], z, &ep)
			}
			return nil
		})
	}
	for i := 0; i < n && images == 1 && err == nil; i++ {
		c.Parallel(slices, 1, func(lo, hi int) {
			for z := lo; z < hi; z++ {
				f.v.Load(level, volume, from(i), z)
			}
		})
		if par == nil {
			err = kit.InWorkspaces(c, outs, func(ws, z int) error {
				f.v.Run(level, nil, to(i), volume, buf[ws*outSize:][:outSize], z, &ep)
				return nil
			})
			continue
		}
		for z := range outs {
			f.v.Run(level, par, to(i), volume, buf, z, &ep)
		}
		err = c.Err()
	}
	if err != nil {
		return err
	}
	if f.adds(c) {
		return f.finish(c, y)
	}
	return nil
}

// adds reports whether input Z is present.
func (f *FusedConv) adds(c *ir.Call) bool { return c.Tensor(3) != nil }
