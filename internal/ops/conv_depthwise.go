package ops

import (
	"slices"
	"sync/atomic"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/conv"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/window"
	"github.com/onward-ml/onward/tensor"
)

// depthwiseConv is a depthwise Conv or FusedConv of float32, with one or several filters per
// channel, over one or two spatial axes of known sizes, with constant weights and bias, on N×C×W or
// N×C×H×W tensors.
type depthwiseConv struct {
	FusedConv
	d       *conv.DepthwisePlanes
	in, out []int // without the batch dimension
}

// LoneDepthwise reports whether a convolution from c channels to m is as fast outside of a blocked
// region as inside, or faster if m is larger.
func LoneDepthwise(group, c, m int) bool {
	const most = 4 // filters per channel
	return group > 1 && group == c && m%c == 0 && m/c <= most
}

// prepareDepthwise packs the weights of a depthwise convolution over one or two axes, in each run
// if sizes are free. It returns nil if the convolution is not supported.
func prepareDepthwise(f *FusedConv, in []tensor.Value, types []ir.Type) (ir.Operator, []int, error) {
	w, ok := in[1].(*tensor.Tensor)
	if !ok || w.DType() != tensor.TypeFloat32 || w.Rank() != 3 && w.Rank() != 4 || len(types[0].Shape) != w.Rank() ||
		w.Dim(1) != 1 || !LoneDepthwise(f.Group, f.Group, w.Dim(0)) {
		return nil, nil, nil
	}
	shape, ok := ir.Ints(types[0].Shape[1:])
	if !ok {
		return &freeDepthwise{FusedConv: *f, in: in, types: types}, nil, nil
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
	if err != nil || kit.Product(s.Shape) == 0 || kit.Product(shape) == 0 || s.WideBorder() {
		return nil, nil, nil // Run reports the error
	}
	plane := func(v []int, height int) []int {
		if len(v) == 1 {
			return []int{height, v[0]}
		}
		return v
	}
	d, err := conv.NewDepthwisePlanes(cpu.Active(),
		&conv.Shape{N: 1, Cin: s.C, Cout: s.M, Group: s.Group, In: plane(s.In, 1), Kernel: plane(s.Kernel, 1),
			Stride: plane(s.Stride, 1), Dilation: plane(s.Dilation, 1), PadBegin: plane(s.Before, 0),
			PadEnd: plane(s.After, 0), Out: plane(s.Out, 1)}, tensor.MustData[float32](w), bias)
	if err != nil {
		return nil, nil, err
	}
	if d.Scratch() > 0 && window.ByRows(&s.Geometry, s.Cg, s.M) {
		return nil, nil, nil
	}
	return &depthwiseConv{FusedConv: *f, d: d, in: shape, out: s.Shape[1:]}, drop, nil
}

// freeDepthwise is a depthwise convolution over free dimensions, with constant weights. It keeps
// the operator for the sizes of the last run.
type freeDepthwise struct {
	FusedConv
	in    []tensor.Value // constant inputs
	types []ir.Type
	last  atomic.Pointer[depthwiseConv]
}

// Run prepares the operator for the sizes of the input, and runs it.
func (f *freeDepthwise) Run(c *ir.Call) error {
	x := c.Tensor(0)
	d := f.last.Load()
	if d == nil || x.Rank() != len(d.in)+1 || !slices.Equal(x.Shape()[1:], d.in) {
		types := slices.Clone(f.types)
		types[0] = ir.TypeOf(x)
		op, _, err := prepareDepthwise(&f.FusedConv, f.in, types)
		if err != nil {
			return err
		}
		var ok bool
		if d, ok = op.(*depthwiseConv); !ok {
			return f.FusedConv.Run(c)
		}
		f.last.Store(d)
	}
	return d.Run(c)
}

// Run computes block by block of channels.
func (f *depthwiseConv) Run(c *ir.Call) error {
	x := c.Tensor(0)
	if x.Rank() == 0 || !slices.Equal(x.Shape()[1:], f.in) {
		return fail.Errorf("input has shape %v, want N images of %v", x.Shape(), f.in)
	}
	n := x.Dim(0)
	y, err := c.Output(0, tensor.TypeFloat32, append([]int{n}, f.out...)...)
	if err != nil || y.Len() == 0 {
		return err
	}
	blocks, size := f.d.Blocks(), f.d.Scratch()
	spaces := kit.WorkspaceCount(c, n*blocks)
	scratch, err := ir.ScratchOf[float32](c, spaces*size)
	if err != nil {
		return err
	}
	act := kit.Activation{}
	if !f.adds(c) {
		act = f.Act
	}
	xs, ys := tensor.MustData[float32](x), tensor.MustData[float32](y)
	in, out := kit.Product(f.in), kit.Product(f.out)
	err = kit.InWorkspaces(c, n*blocks, func(ws, i int) error {
		img, b := i/blocks, i%blocks
		f.d.Run(cpu.Active(), ys[img*out:][:out], xs[img*in:][:in], scratch[ws*size:][:size], b,
			act.Gemm(), act.Lo, act.Hi)
		return nil
	})
	if err != nil || !f.adds(c) {
		return err
	}
	return f.finish(c, y)
}
