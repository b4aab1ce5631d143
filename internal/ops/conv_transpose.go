package ops

import (
	"slices"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/conv"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/internal/ops/kit/window"
	"github.com/onward-ml/onward/tensor"
)

// ConvTranspose is the transpose of a convolution: every element of an N×C×D1…Dk input adds a
// C×M/Group×K1…Kk kernel, multiplied by the element, to the output
// (https://onnx.ai/onnx/operators/onnx__ConvTranspose.html).
type ConvTranspose struct {
	window.Window
	Group         int
	OutputPadding []int // additional output elements after each axis; nil: 0
	OutputShape   []int // spatial output sizes that determine Pads; nil: Pads is used
}

var _ = kit.Register(&kit.Def{Name: "ConvTranspose", Since: kit.Versions{1, 11, 22}, In: "X:T, W:T, B:T?",
	Out: "Y:T", Types: "T: @float",
	MACs: kit.ConvTransposeMACs,
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &ConvTranspose{Window: window.Read(a, true), Group: window.ReadGroup(a),
			OutputPadding: window.Attr(a, "output_padding", 0), OutputShape: window.Attr(a, "output_shape", 0)}
	},
	Gradient: gradient.Rule(convTransposeGradient)})

// convTransposeGradient convolves the gradient.
func convTransposeGradient(b *gradient.Builder, n *gradient.Node, g string) ([]string, error) {
	if len(n.Inputs) < 2 {
		return nil, fail.Errorf("node has %d inputs, want 2 or 3", len(n.Inputs))
	}
	if auto := n.Attrs.Text("auto_pad"); auto != "" && auto != "NOTSET" || n.Attrs.Has("output_shape") {
		return nil, fail.Errorf("is differentiable with explicit pads only, not with auto_pad %q or output_shape", auto)
	}
	attrs := n.Attrs.Without("output_padding")
	r := make([]string, len(n.Inputs))
	r[0] = b.Node("Conv", attrs, g, n.Inputs[1])
	r[1] = b.Node("onward.ConvWeightGradient", attrs, n.Inputs[0], g, n.Inputs[1])
	if bias := n.Input(2); bias != "" {
		r[2] = b.Op("onward.ChannelSum", g, bias)
	}
	return r, nil
}

// axis returns, for axis i of n, the padding before the output and the size of the output.
func (v *ConvTranspose) axis(i, n, in, kernel int) (before, out int, err error) {
	if in < 0 || in > window.Limit || kernel < 1 || kernel > window.Limit {
		return 0, 0, fail.Errorf("input size is %d, want 0 to %d; kernel size is %d, want 1 to %[2]d",
			in, window.Limit, kernel)
	}
	s := v.Stride(i)
	if in == 0 {
		return 0, 0, nil
	}
	full := s*(in-1) + window.At(v.OutputPadding, i, 0) + (kernel-1)*v.Dilation(i) + 1
	same := v.AutoPad == "SAME_UPPER" || v.AutoPad == "SAME_LOWER"
	if v.OutputShape == nil && !same {
		before, after := 0, 0
		if v.AutoPad == "NOTSET" {
			before, after = v.PadsOf(i, n)
		}
		if full < before+after {
			return 0, 0, fail.Errorf("pads %d and %d exceed the %d elements of the output", before, after, full)
		}
		return before, full - before - after, nil
	}
	out = s * in
	if v.OutputShape != nil {
		out = v.OutputShape[len(v.OutputShape)-n+i]
	}
	total := max(0, full-out)
	if before = total - total/2; v.AutoPad == "SAME_UPPER" {
		before = total / 2
	}
	return before, out, nil
}

// check returns an error unless all attributes are for n spatial axes. OutputShape may also include
// the batch and channel sizes.
func (v *ConvTranspose) check(n int) error {
	if err := v.Window.Check(n); err != nil {
		return err
	}
	if v.OutputPadding != nil && len(v.OutputPadding) != n {
		return fail.Errorf("attribute output_padding has %d elements, want %d", len(v.OutputPadding), n)
	}
	if l := len(v.OutputShape); l != 0 && l != n && l != n+2 {
		return fail.Errorf("attribute output_shape has %d elements, want %d", l, n)
	}
	return nil
}

// Infer computes the output sizes.
func (v *ConvTranspose) Infer(c *ir.InferContext) error {
	out := ir.UnrankedTensor(c.Elem(0))
	defer func() { c.SetOut(0, out) }()
	x, w := c.Shape(0), c.Shape(1)
	if x != nil && len(x) < 3 {
		return fail.Errorf("input has rank %d, want at least 3", len(x))
	}
	if x != nil && w != nil && len(x) != len(w) {
		return fail.Errorf("input has rank %d and weights %d, want the same", len(x), len(w))
	}
	if x == nil {
		return nil
	}
	n := len(x) - 2
	if err := v.check(n); err != nil {
		return err
	}
	out.Shape = ir.UnknownDims(n + 2)
	out.Shape[0] = x[0]
	if w != nil {
		if x[1].Differs(w[0]) {
			return fail.Errorf("input has %s channels, weights have %s", x[1], w[0])
		}
		out.Shape[1] = w[1].Mul(ir.Known(v.Group))
	}
	for i := range n {
		k := ir.Unknown
		if w != nil {
			k = w[2+i]
		}
		if v.Kernel != nil {
			if k.Differs(ir.Known(v.Kernel[i])) {
				return fail.Errorf("attribute kernel_shape is %v, the weights have %v", v.Kernel, w[2:])
			}
			k = ir.Known(v.Kernel[i])
		}
		kn, known := k.Value()
		in, ok := x[2+i].Value()
		switch s := v.Stride(i); {
		case ok && known:
			_, o, err := v.axis(i, n, in, kn)
			if err != nil {
				return fail.Errorf("spatial axis %d: %w", i, err)
			}
			out.Shape[2+i] = ir.Known(o)
		case v.OutputShape != nil:
		case v.AutoPad == "SAME_UPPER" || v.AutoPad == "SAME_LOWER":
			out.Shape[2+i] = x[2+i].Mul(ir.Known(s))
		case known && kn >= 1 && kn <= window.Limit:
			before, after := 0, 0
			if v.AutoPad == "NOTSET" {
				before, after = v.PadsOf(i, n)
			}
			more := window.At(v.OutputPadding, i, 0) + (kn-1)*v.Dilation(i) + 1 - before - after - s
			out.Shape[2+i] = x[2+i].Mul(ir.Known(s)).Add(ir.Known(more))
		}
	}
	return nil
}

// convShape returns the geometry of the convolution whose transpose this is, with input and output
// exchanged.
func (v *ConvTranspose) convShape(x, w []int) (window.ConvShape, error) {
	s := window.ConvShape{Group: v.Group}
	if len(x) < 3 || len(w) != len(x) {
		return s, fail.Errorf("input has shape %v and weights %v, want the same rank of at least 3", x, w)
	}
	n := len(x) - 2
	if err := v.check(n); err != nil {
		return s, err
	}
	if err := window.ConvKernel(&v.Window, w[2:]); err != nil {
		return s, err
	}
	if x[1] != w[0] || x[1]%v.Group != 0 {
		return s, fail.Errorf("input has %d channels, weights have %d in %d groups", x[1], w[0], v.Group)
	}
	s.N, s.M, s.Mg, s.Cg = x[0], x[1], x[1]/v.Group, w[1]
	if s.Cg > window.Limit {
		return s, fail.Errorf("weights have %d output channels, want at most %d", s.Cg, window.Limit)
	}
	s.C = s.Cg * v.Group
	s.Shape = append([]int{s.N, s.C}, x[2:]...)
	s.Geometry = window.Geometry{Kernel: w[2:], Out: x[2:], In: s.Shape[2:], Stride: make([]int, n),
		Dilation: make([]int, n), Before: make([]int, n)}
	for i := range n {
		s.Stride[i], s.Dilation[i] = v.Stride(i), v.Dilation(i)
		var err error
		if s.Before[i], s.In[i], err = v.axis(i, n, x[2+i], w[2+i]); err != nil {
			return s, fail.Errorf("spatial axis %d: %w", i, err)
		}
	}
	return s, nil
}

// Run computes float16 and bfloat16 in float32.
func (v *ConvTranspose) Run(c *ir.Call) error {
	if c.Tensor(0).DType() == tensor.TypeFloat64 {
		return convTranspose[float64](c, v)
	}
	return convTranspose[float32](c, v)
}

func convTranspose[T kit.RealFloat](c *ir.Call, v *ConvTranspose) error {
	s, err := v.convShape(c.Tensor(0).Shape(), c.Tensor(1).Shape())
	if err != nil {
		return err
	}
	if b := c.Tensor(2); b != nil {
		if err := window.ConvBias(b.Shape(), s.C); err != nil {
			return err
		}
	}
	var in [3][]T
	for i := range in {
		if in[i], err = kit.RealIn[T](c, c.Tensor(i)); err != nil {
			return err
		}
	}
	y, err := kit.RealOut[T](c, 0, c.Tensor(0).DType(), s.Shape...)
	if err != nil || len(y.Data) == 0 {
		return err
	}
	if c.Generic {
		err = window.ConvTransposePlain(c, &s, in[0], in[1], in[2], y.Data)
	} else {
		err = window.ConvTransposeGemm(c, &s, in[0], in[1], in[2], y.Data)
	}
	if err == nil {
		y.Store()
	}
	return err
}

// convTransposePacked is a ConvTranspose of float32 over one or two spatial axes of known sizes,
// with constant weights and bias.
type convTransposePacked struct {
	ConvTranspose
	d       *conv.Transposed
	in, out []int // without the batch dimension
}

// Prepare packs constant weights with enough channels to fill blocks.
func (v *ConvTranspose) Prepare(in []tensor.Value, types []ir.Type) (ir.Operator, []int, error) {
	w, ok := in[1].(*tensor.Tensor)
	if !ok || w.DType() != tensor.TypeFloat32 || w.Rank() < 3 || w.Rank() > 4 || len(types[0].Shape) != w.Rank() ||
		w.Dim(0) < conv.VolumeChannels || v.Group != 1 {
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
		if !ok || !slices.Equal(b.Shape(), []int{w.Dim(1)}) {
			return nil, nil, nil
		}
		bias, drop = tensor.MustData[float32](b), append(drop, 2)
	}
	s, err := v.convShape(append([]int{1}, shape...), w.Shape())
	if err != nil || kit.Product(s.Shape) == 0 || kit.Product(shape) == 0 || kit.Product(w.Shape()) == 0 {
		return nil, nil, nil // Run reports the error
	}
	// one axis is an image of height 1
	kernel, from, to, stride, pad := [2]int{1, 1}, [2]int{1, 1}, [2]int{1, 1}, [2]int{1, 1}, [2]int{}
	for k := range s.Kernel {
		i := k + 2 - len(s.Kernel)
		kernel[i], from[i], to[i], stride[i], pad[i] = s.Kernel[k], s.Out[k], s.In[k], s.Stride[k], s.Before[k]
		// Not supported: cases in which most of the work would be on zeros, such as outputs beyond
		// all kernels or strides larger than the kernel.
		if s.Dilation[k] != 1 || pad[i] >= kernel[i] || stride[i] > kernel[i] ||
			to[i] > stride[i]*(from[i]+1)+kernel[i] {
			return nil, nil, nil
		}
	}
	if to[0]*to[1] > 2*stride[0]*stride[1]*from[0]*from[1] { // padding that is larger than the image
		return nil, nil, nil
	}
	if stride[0]*stride[1]*s.C < conv.Lanes*3/4 { // most channels of the block would be padding
		return nil, nil, nil
	}
	d, err := conv.NewTransposed(cpu.Active(), tensor.MustData[float32](w), bias, s.M, s.C, kernel, from,
		to, stride, pad)
	if err != nil {
		return nil, nil, err
	}
	return &convTransposePacked{ConvTranspose: *v, d: d, in: shape, out: s.Shape[1:]}, drop, nil
}

// Run computes image by image.
func (v *convTransposePacked) Run(c *ir.Call) error {
	x := c.Tensor(0)
	if x.Rank() != len(v.in)+1 || !slices.Equal(x.Shape()[1:], v.in) {
		return fail.Errorf("input has shape %v, want N images of %v", x.Shape(), v.in)
	}
	n := x.Dim(0)
	y, err := c.Output(0, tensor.TypeFloat32, append([]int{n}, v.out...)...)
	if err != nil || y.Len() == 0 {
		return err
	}
	scratch, err := ir.ScratchOf[float32](c, v.d.Scratch())
	if err != nil {
		return err
	}
	for i := range n {
		if err := c.Err(); err != nil {
			return err
		}
		v.d.Run(cpu.Active(), c.Par(), tensor.MustData[float32](y)[i*kit.Product(v.out):][:kit.Product(v.out)],
			tensor.MustData[float32](x)[i*kit.Product(v.in):][:kit.Product(v.in)], scratch)
	}
	return nil
}
