package blocked

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/conv"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/window"
	"github.com/onward-ml/onward/tensor"
)

// Conv is a FusedConv whose output is blocked, and whose input is blocked
// too unless the convolution [ReadsNCHW]. Weights and bias are packed into it; input 1, if
// any, is added before the activation, or at the end.
type Conv struct {
	Add    Layout // layout of input 1
	HasAdd bool
	Last   bool // input 1 is added after Map
	Act    kit.Activation
	Map    func(dst, src []float32, block int) // a function of every element and its channel after Act, or nil

	in, out Layout
	planar  bool // whether the input is N×C×H×W
	turned  bool // kernel runs on images with the axes exchanged
	kernel  blockedKernel
}

// blockedKernel is one of the ways to convolve one image.
type blockedKernel interface {
	Run(level cpu.Level, par gemm.Par, y, x []float32, ep *conv.BlockedEpilogue)
}

// imagesKernel is a blockedKernel for several small images.
type imagesKernel interface {
	TakesImages(level cpu.Level, n int, ep *conv.BlockedEpilogue) bool
	RunImages(level cpu.Level, par gemm.Par, y, x []float32, n int, ep *conv.BlockedEpilogue)
}

// nchwChannels is the number of input channels up to which a convolution reads
// them as planes: a block would be mostly padding.
const nchwChannels = 4

// ReadsNCHW reports whether a convolution from cin channels reads N×C×H×W.
func ReadsNCHW(cin, group int) bool { return cin <= nchwChannels && group == 1 }

// PermutesInput reports whether a blocked convolution can read its input's channels in
// another order for nothing: a 1×1 convolution without padding, for weights of shape w
// in geometry g.
func PermutesInput(cv *ops.Conv, w []int, g window.ConvGeometry) bool {
	return w[2] == 1 && w[3] == 1 && g.Top|g.Left|g.Bottom|g.Right == 0 &&
		!ReadsNCHW(w[1]*cv.Group, cv.Group) && w[1] > 1
}

// isDepthwise reports whether a convolution from cin channels to cout has one filter per channel.
func isDepthwise(cv *ops.Conv, cin, cout int) bool {
	return cv.Group == cin && cout == cin && cv.Group > 1
}

// InputBorder returns the border, top, left, bottom and right, that a blocked convolution of cin
// channels of h×w pixels reads, for weights of shape shape in geometry g.
func InputBorder(cv *ops.Conv, shape []int, cin, h, w int, g window.ConvGeometry) [4]int {
	t := tapsInside(cv, shape, h, w, &g)
	if isDepthwise(cv, cin, shape[0]) && !conv.DepthwiseNeedsRows(g.OutW, t.kh, cv.Dilation(0), g.Top, g.Bottom) {
		return [4]int{0, g.Left, 0, g.Right}
	}
	if n := columnsOf(cv, t, shape[0], &g); n > 1 {
		g.Right = max(g.Right, conv.ColumnsBorder(w, g.OutW, t.kw, cv.Stride(1), g.Left, n))
	}
	return [4]int{g.Top, g.Left, g.Bottom, g.Right}
}

// columnsOf returns the number of columns that a convolution to cout channels computes as channels
// of one pixel.
func columnsOf(cv *ops.Conv, t taps, cout int, g *window.ConvGeometry) int {
	if cv.Group > 1 {
		return 1
	}
	return conv.ChooseColumns(cpu.Active(), cout, t.kw, cv.Stride(1), cv.Dilation(1), g.OutW)
}

// taps are the taps of a kernel that read a pixel for some output: kh×kw from row top and column
// left on. All other taps read padding, such as those of a dilated convolution of a small image.
type taps struct{ top, left, kh, kw int }

// tapsInside returns the taps of weights of shape shape for an input of h×w pixels, and reduces the
// padding of g to what they read.
func tapsInside(cv *ops.Conv, shape []int, h, w int, g *window.ConvGeometry) (t taps) {
	t.top, t.kh, g.Top, g.Bottom = axisInside(shape[2], cv.Stride(0), cv.Dilation(0), h, g.OutH, g.Top, g.Bottom)
	t.left, t.kw, g.Left, g.Right = axisInside(shape[3], cv.Stride(1), cv.Dilation(1), w, g.OutW, g.Left, g.Right)
	return t
}

// axisInside returns the first tap of an axis and the number of taps, with the padding for these.
func axisInside(k, stride, dilation, in, out, before, after int) (first, count, top, bottom int) {
	end := k
	for first < k-1 && first*dilation-before+(out-1)*stride < 0 && (first+1)*dilation <= before {
		first++
	}
	for end-1 > first && (end-1)*dilation-before >= in {
		end--
	}
	return first, end - first, before - first*dilation, max(0, after-(k-end)*dilation)
}

// of returns the weights of the taps, for all weights of shape shape.
func (t taps) of(w []float32, shape []int) []float32 {
	if t.kh == shape[2] && t.kw == shape[3] {
		return w
	}
	r := make([]float32, 0, shape[0]*shape[1]*t.kh*t.kw)
	for filter := range shape[0] * shape[1] {
		for row := range t.kh {
			at := (filter*shape[2]+t.top+row)*shape[3] + t.left
			r = append(r, w[at:at+t.kw]...)
		}
	}
	return r
}

// NewConv packs weights m×c/group×kh×kw and a bias, which may be nil, for
// images in layout in (whose border holds the padding; only C, H and W matter for
// a convolution that [ReadsNCHW]). order, unless nil, says for every input channel which one of the
// image it is; the convolution must be one that [PermutesInput]. packs has weights that are packed
// already. add is the layout of input 1, or nil.
func NewConv(cv *ops.Conv, w, bias *tensor.Tensor, in, out Layout, add *Layout, act kit.Activation, order []int,
	packs *ir.Packs) (*Conv, error) {
	s := w.Shape()
	if len(s) != 4 || w.DType() != tensor.TypeFloat32 {
		return nil, fail.Errorf("weights are %s, want a float tensor of rank 4", w)
	}
	m := s[0]
	g, err := cv.Geometry2(in.H, in.W, s[2:])
	if err != nil {
		return nil, err
	}
	if g.OutH != out.H || g.OutW != out.W || m != out.C || s[1]*cv.Group != in.C {
		return nil, fail.Errorf("weights %v map %d×%d×%d to %d×%d×%d, want %d×%d×%d", s, in.C, in.H, in.W, m, g.OutH,
			g.OutW, out.C, out.H, out.W)
	}
	if bias != nil && bias.Len() != m {
		return nil, fail.Errorf("bias has %d elements, want %d", bias.Len(), m)
	}
	if order != nil && !PermutesInput(cv, s, g) {
		return nil, fail.Errorf("weights %v do not support permuted input channels", s)
	}
	v := &Conv{Act: act, in: in, out: out}
	if add != nil {
		v.HasAdd, v.Add = true, *add
	}
	sh, sw, dh, dw := cv.Stride(0), cv.Stride(1), cv.Dilation(0), cv.Dilation(1)
	p := convWeights{cv: cv, w: w, bias: bias, cin: in.C, packs: packs}
	p.choose(in, out, &g, order != nil)
	v.planar = p.kind == packNCHWInput
	// Tiles extend along rows, so that rows of one pixel would take a tile each.
	if in.H > 1 && in.W == 1 && p.taps.kw == 1 && g.Left == 0 && (v.planar || in.Column()) && out.Column() &&
		(add == nil || add.Column()) {
		p.turned, v.turned = true, true
		in, out = in.Turned(), out.Turned()
		sh, sw, dh, dw = 1, sh, 1, dh
		g.Top, g.Left = 0, g.Top
	}
	kh, kw := p.kernel()
	switch p.kind {
	case packNCHWInput:
		k := conv.NCHWInput{Cin: in.C, H: in.H, W: in.W, Out: out, StrideH: sh, StrideW: sw, DilationH: dh,
			DilationW: dw, Top: g.Top, Left: g.Left, Weights: p.weights()}
		if v.kernel = &k; p.param > 1 {
			v.kernel = conv.NewInputColumns(k, p.param)
		}
	case packDepthwise:
		k := &conv.Depthwise{In: in, Out: out, StrideH: sh, StrideW: sw, DilationH: dh, DilationW: dw,
			Top: g.Top, Left: g.Left, Weights: p.depthwise()}
		v.kernel, err = k, k.Check()
	case packColumns:
		v.kernel, err = conv.NewColumns(conv.Direct{In: in, Out: out, StrideH: sh, StrideW: sw, DilationH: dh,
			DilationW: dw, Top: g.Top, Left: g.Left, Weights: p.weights()}, p.param)
	case packGrouped:
		k := &conv.Grouped{In: in, Out: out, StrideH: sh, StrideW: sw, DilationH: dh, DilationW: dw,
			Top: g.Top, Left: g.Left, Weights: p.grouped()}
		v.kernel, err = k, k.Check()
	case packPermuted:
		var k *conv.PermutedWeights
		if k, err = p.permuted(); err == nil {
			v.kernel, err = conv.NewPermutedPointwise(k, in, out, sh, sw, order)
		}
	case packWinograd:
		k := &conv.Winograd{In: in, Out: out, Top: g.Top, Left: g.Left, Dilation: dh, Weights: p.winograd()}
		v.kernel, err = k, k.Check()
	case packPerTap:
		k := &conv.PerTap{In: in, Out: out, KH: kh, KW: kw, DilationH: dh, DilationW: dw, Top: g.Top, Left: g.Left,
			Weights: p.weights()}
		v.kernel, err = k, k.Check()
	case packDirect:
		k := &conv.Direct{In: in, Out: out, StrideH: sh, StrideW: sw, DilationH: dh, DilationW: dw,
			Top: g.Top, Left: g.Left, Weights: p.weights()}
		v.kernel, err = k, k.Check()
	}
	return v, err
}

// Infer gives the blocked type.
func (v *Conv) Infer(c *ir.InferContext) error {
	n := ir.Unknown
	if s := c.Shape(0); len(s) > 0 {
		n = s[0]
	}
	c.SetOut(0, Type(n, v.out))
	return nil
}

// Then returns the convolution followed by op, which reads what v makes as its given input: a
// function of every element and its channel, or an addition of another image after all functions.
// It returns nil for other operators, and if v already adds an image at the end.
func (v *Conv) Then(op ir.Operator, input int) *Conv {
	r := *v
	switch op := op.(type) {
	case *Map:
		r.Map, r.out = v.mapThen(op.fn), op.Out
	case *Affine:
		r.Map, r.out = v.mapThen(op.apply), op.Out
	case *Binary:
		if !op.sum || op.perChannel() || op.Act != (kit.Activation{}) || v.HasAdd {
			return nil
		}
		r.HasAdd, r.Last, r.Add, r.out = true, true, op.B, op.Out
		if input == 1 {
			r.Add = op.A
		}
	default:
		return nil
	}
	if v.Last {
		return nil
	}
	if v.turned && !(r.out.Column() && (!r.HasAdd || r.Add.Column())) {
		return nil
	}
	out := v.turn(r.out)
	switch k := v.kernel.(type) {
	case *conv.Direct:
		r.kernel = k.To(out)
	case *conv.PermutedPointwise:
		r.kernel = k.To(out)
	case *conv.NCHWInput:
		r.kernel = k.To(out)
	case *conv.Depthwise:
		r.kernel = k.To(out)
	case *conv.Grouped:
		r.kernel = k.To(out)
	case *conv.Winograd:
		r.kernel = k.To(out)
	case *conv.PerTap:
		r.kernel = k.To(out)
	case *conv.Columns:
		r.kernel = k.To(out)
	default:
		return nil
	}
	return &r
}

// mapThen returns fn, computed after v.Map.
func (v *Conv) mapThen(fn func(dst, src []float32, block int)) func(dst, src []float32, block int) {
	first := v.Map
	if first == nil {
		return fn
	}
	return func(dst, src []float32, block int) {
		first(dst, src, block)
		fn(dst, dst, block)
	}
}

// turn returns the layout in which the kernel sees images.
func (v *Conv) turn(l Layout) Layout {
	if v.turned {
		return l.Turned()
	}
	return l
}

// Rounded implements [ir.Rounder].
func (v *Conv) Rounded() ir.Operator {
	r := *v
	switch d := v.kernel.(type) {
	case *conv.Direct:
		if k := d.Rounded(cpu.Active()); k != nil {
			r.kernel = k
			return &r
		}
	case *conv.PermutedPointwise:
		if k := d.Rounded(cpu.Active()); k != nil {
			r.kernel = k
			return &r
		}
	case *conv.Winograd:
		if k := d.Rounded(cpu.Active()); k != nil {
			r.kernel = k
			return &r
		}
	}
	return nil
}

// epilogue returns the epilogue of an image that threads share. add has the residuals of all
// images, or is nil.
func (v *Conv) epilogue(threads int, add []float32, image int) *conv.BlockedEpilogue {
	ep := &conv.BlockedEpilogue{AddLayout: v.turn(v.Add), Act: v.Act.Gemm(), Lo: v.Act.Lo, Hi: v.Act.Hi, Map: v.Map,
		Threads: threads}
	if v.out.C%8 != 0 { // convolutions skip groups of four channels, or of eight if they round to bfloat16
		ep.Channels = v.out.C
	}
	if add != nil {
		add = add[image*v.Add.Len():][:v.Add.Len()]
		if v.Last {
			ep.Last = add
		} else {
			ep.Add = add
		}
	}
	return ep
}

// input returns input 0 as n images, each of size elements.
func (v *Conv) input(c *ir.Call) (n, size int, x []float32, err error) {
	if v.planar {
		n, x, err = planarIn(c, 0, &v.in)
		return n, v.in.C * v.in.H * v.in.W, x, err
	}
	n, x, err = blockedIn(c, 0, &v.in)
	return n, v.in.Len(), x, err
}

// residual returns input k as n images, or nil without such an input.
func (v *Conv) residual(c *ir.Call, k, n int) ([]float32, error) {
	if !v.HasAdd {
		return nil, nil
	}
	na, add, err := blockedIn(c, k, &v.Add)
	if err == nil && na != n {
		err = fail.Errorf("input %d has %d images, want %d", k, na, n)
	}
	return add, err
}

// Run convolves image by image; the kernel splits an image over threads.
func (v *Conv) Run(c *ir.Call) error {
	n, size, x, err := v.input(c)
	if err != nil {
		return err
	}
	add, err := v.residual(c, 1, n)
	if err != nil {
		return err
	}
	y, err := blockedOut(c, n, &v.out)
	if err != nil {
		return err
	}
	if k, ok := v.kernel.(imagesKernel); ok && add == nil {
		if ep := v.epilogue(c.Threads(), nil, 0); k.TakesImages(cpu.Active(), n, ep) {
			k.RunImages(cpu.Active(), c.Launcher(), y, x, n, ep)
			return nil
		}
	}
	v.images(c, n, size, y, x, add, v.same)
	return nil
}

// same returns the kernel that convolves all images.
func (v *Conv) same(int, gemm.Par) blockedKernel { return v.kernel }

// images convolves n images x of the given size, each with its kernel. add may be nil.
func (v *Conv) images(c *ir.Call, n, size int, y, x, add []float32,
	kernel func(image int, par gemm.Par) blockedKernel) {
	var ep *conv.BlockedEpilogue
	eachImage(c, n, size+v.out.Len(), func(i, threads int, par gemm.Par) {
		if add != nil || i == 0 {
			ep = v.epilogue(threads, add, i) // each image's launch captures its own
		}
		kernel(i, par).Run(cpu.Active(), par, y[i*v.out.Len():][:v.out.Len()], x[i*size:][:size], ep)
	})
}

// Pool is a MaxPool or AveragePool from one layout to another.
type Pool struct{ pool conv.Pool }

// NewPool makes the pooling of op, a *MaxPool or *AveragePool.
func NewPool(op kit.Operator, in, out Layout) (*Pool, error) {
	p := &Pool{conv.Pool{In: in, Out: out}}
	var w *window.Window
	switch op := op.(type) {
	case *ops.MaxPool:
		w, p.pool.Kind = &op.Window, conv.MaxPool
	case *ops.AveragePool:
		w, p.pool.Kind = &op.Window, conv.AveragePool
		if op.CountIncludePad {
			p.pool.Kind = conv.AveragePoolIncludePad
		}
	default:
		return nil, fail.Errorf("operator %T is not a MaxPool or AveragePool", op)
	}
	if len(w.Kernel) == 1 && in.H == 1 {
		plane := w.Plane()
		w = &plane
	}
	if len(w.Kernel) != 2 {
		return nil, fail.Errorf("kernel has %d axes, want 2", len(w.Kernel))
	}
	g, err := w.Resolve([]int{in.H, in.W}, w.Kernel)
	if err != nil {
		return nil, err
	}
	if g.Out[0] != out.H || g.Out[1] != out.W {
		return nil, fail.Errorf("the window maps %d×%d to %v, want %d×%d", in.H, in.W, g.Out, out.H, out.W)
	}
	k := &p.pool
	k.KH, k.KW, k.StrideH, k.StrideW, k.DilationH, k.DilationW = g.Kernel[0], g.Kernel[1], g.Stride[0], g.Stride[1],
		g.Dilation[0], g.Dilation[1]
	k.Top, k.Left, k.Bottom, k.Right = g.Before[0], g.Before[1], g.After[0], g.After[1]
	return p, k.Check()
}

// Infer gives the blocked type.
func (p *Pool) Infer(c *ir.InferContext) error {
	n := ir.Unknown
	if s := c.Shape(0); len(s) > 0 {
		n = s[0]
	}
	c.SetOut(0, Type(n, p.pool.Out))
	return nil
}

// Run pools image by image.
func (p *Pool) Run(c *ir.Call) error {
	n, x, err := blockedIn(c, 0, &p.pool.In)
	if err != nil {
		return err
	}
	y, err := blockedOut(c, n, &p.pool.Out)
	if err != nil {
		return err
	}
	out, size := p.pool.Out.Len(), p.pool.In.Len()
	eachImage(c, n, size+out, func(i, _ int, par gemm.Par) {
		p.pool.Run(cpu.Active(), par, y[i*out:][:out], x[i*size:][:size])
	})
	return nil
}
