package ops

import (
	"errors"
	"fmt"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/conv"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/tensor"
)

// BlockedConv is a FusedConv whose output is blocked, and whose input is blocked
// too unless it is a stem's. Weights and bias are packed into it; input 1, if
// any, is added before the activation.
type BlockedConv struct {
	Add    Layout // of input 1
	HasAdd bool
	Act    Activation
	Map    func(dst, src []float32) // a function of every element after Act, or nil

	in, out Layout
	planar  bool // the input is N×C×H×W
	kernel  blockedKernel
}

// blockedKernel is one of the ways to convolve one image.
type blockedKernel interface {
	Run(level cpu.Level, par gemm.Par, y, x []float32, ep *conv.BlockedEpilogue)
}

// ConvGeometry is where the window of a convolution or pooling lies for known
// sizes.
type ConvGeometry struct {
	OutH, OutW               int
	Top, Left, Bottom, Right int // padding that the windows reach into
}

// Geometry2 lays a window over an h×w image; kernel is the kernel's size.
func (w *Window) Geometry2(h, width int, kernel []int) (ConvGeometry, error) {
	g, err := w.resolve([]int{h, width}, kernel)
	if err != nil {
		return ConvGeometry{}, err
	}
	reach := func(i int) int {
		return max(0, (g.out[i]-1)*g.stride[i]+(g.kernel[i]-1)*g.dilation[i]+1-g.before[i]-g.in[i])
	}
	return ConvGeometry{OutH: g.out[0], OutW: g.out[1], Top: g.before[0], Left: g.before[1], Bottom: reach(0), Right: reach(1)}, nil
}

// stemChannels is the number of input channels up to which a convolution reads
// them as planes: a block would be mostly padding.
const stemChannels = 4

// BlockedStem reports whether a convolution from cin channels reads N×C×H×W.
func BlockedStem(cin, group int) bool { return cin <= stemChannels && group == 1 }

// TakesOrder reports whether a blocked convolution can read its input's channels in
// another order for nothing: a 1×1 convolution without padding, for weights of shape w
// in geometry g.
func TakesOrder(cv *Conv, w []int, g ConvGeometry) bool {
	return w[2] == 1 && w[3] == 1 && g.Top|g.Left|g.Bottom|g.Right == 0 && !BlockedStem(w[1]*cv.Group, cv.Group) && w[1] > 1
}

// NewBlockedConv packs weights m×c/group×kh×kw and a bias, which may be nil, for
// images in layout in (whose border holds the padding; only C, H and W matter for
// a stem). order, unless nil, says for every input channel which one of the image
// it is; the convolution must be one that [TakesOrder].
func NewBlockedConv(cv *Conv, w, bias *tensor.Tensor, in, out Layout, act Activation, order []int) (*BlockedConv, error) {
	s := w.Shape()
	if len(s) != 4 || w.DType() != tensor.TypeFloat32 {
		return nil, fmt.Errorf("weights are %s, want a float tensor of rank 4", w)
	}
	m, kh, kw := s[0], s[2], s[3]
	g, err := cv.Geometry2(in.H, in.W, s[2:])
	if err != nil {
		return nil, err
	}
	if g.OutH != out.H || g.OutW != out.W || m != out.C || s[1]*cv.Group != in.C {
		return nil, fmt.Errorf("weights %v take %d×%d×%d to %d×%d×%d, not to %d×%d×%d", s, in.C, in.H, in.W, m, g.OutH, g.OutW, out.C, out.H, out.W)
	}
	var b []float32
	if bias != nil {
		if bias.Len() != m {
			return nil, fmt.Errorf("bias has %d elements, want %d", bias.Len(), m)
		}
		b = tensor.Of[float32](bias)
	}
	if order != nil && !TakesOrder(cv, s, g) {
		return nil, fmt.Errorf("weights %v do not take channels in another order", s)
	}
	v := &BlockedConv{Act: act, in: in, out: out}
	data := tensor.Of[float32](w)
	sh, sw, dh, dw := cv.stride(0), cv.stride(1), cv.dilation(0), cv.dilation(1)
	switch {
	case BlockedStem(in.C, cv.Group):
		v.planar = true
		v.kernel = &conv.Stem{Cin: in.C, H: in.H, W: in.W, Out: out, StrideH: sh, StrideW: sw, DilationH: dh, DilationW: dw,
			Top: g.Top, Left: g.Left, Weights: conv.PackStem(data, b, in.C, m, kh, kw)}
		return v, nil
	case cv.Group == in.C && m == in.C && cv.Group > 1:
		k := &conv.Depthwise{In: in, Out: out, StrideH: sh, StrideW: sw, DilationH: dh, DilationW: dw, Top: g.Top, Left: g.Left,
			Weights: conv.PackDepthwise(data, b, m, kh, kw)}
		v.kernel, err = k, k.Check()
	case order != nil || TakesOrder(cv, s, g) && conv.GatherPays(in.C, m, cv.Group):
		v.kernel, err = conv.NewGather(data, b, cv.Group, in, out, sh, sw, order)
	case kh == 3 && kw == 3 && sh == 1 && sw == 1 && dh == 1 && dw == 1 && cv.Group == 1 && conv.ChooseWinograd(cpu.Active(), in.C, m, out.H, out.W) > 0:
		k := &conv.Winograd{In: in, Out: out, Top: g.Top, Left: g.Left,
			Weights: conv.PackWinograd(cpu.Active(), conv.ChooseWinograd(cpu.Active(), in.C, m, out.H, out.W), data, b, in.C, m)}
		v.kernel, err = k, k.Check()
	default:
		k := &conv.Direct{In: in, Out: out, StrideH: sh, StrideW: sw, DilationH: dh, DilationW: dw, Top: g.Top, Left: g.Left,
			Weights: conv.PackWeights(cpu.Active(), data, b, in.C, m, cv.Group, kh, kw)}
		v.kernel, err = k, k.Check()
	}
	return v, err
}

// Infer gives the blocked type.
func (v *BlockedConv) Infer(c *ir.InferContext) error {
	n := ir.Unknown
	if s := c.Shape(0); len(s) > 0 {
		n = s[0]
	}
	c.SetOut(0, BlockedType(n, v.out))
	return nil
}

// Then returns the convolution followed by m, which reads what v makes; nil where v has a function already.
func (v *BlockedConv) Then(m *BlockedMap) *BlockedConv {
	if v.Map != nil {
		return nil
	}
	r := *v
	r.Map, r.out = m.fn, m.Out
	switch k := v.kernel.(type) {
	case *conv.Direct:
		r.kernel = k.To(m.Out)
	case *conv.Gather:
		r.kernel = k.To(m.Out)
	case *conv.Stem:
		r.kernel = k.To(m.Out)
	case *conv.Depthwise:
		r.kernel = k.To(m.Out)
	case *conv.Winograd:
		r.kernel = k.To(m.Out)
	default:
		return nil
	}
	return &r
}

// epilogue returns what happens to the sums; the residual itself is missing.
func (v *BlockedConv) epilogue() *conv.BlockedEpilogue {
	return &conv.BlockedEpilogue{AddLayout: v.Add, Act: v.Act.gemm(), Lo: v.Act.Lo, Hi: v.Act.Hi, Map: v.Map}
}

// input returns input 0 as n images, each of size elements.
func (v *BlockedConv) input(c *ir.Call) (n, size int, x []float32, err error) {
	if v.planar {
		n, x, err = planarIn(c, 0, v.in.C, v.in.H, v.in.W)
		return n, v.in.C * v.in.H * v.in.W, x, err
	}
	n, x, err = blockedIn(c, 0, &v.in)
	return n, v.in.Len(), x, err
}

// residual returns input 1 as n images, nil where there is none.
func (v *BlockedConv) residual(c *ir.Call, n int) ([]float32, error) {
	if !v.HasAdd {
		return nil, nil
	}
	na, add, err := blockedIn(c, 1, &v.Add)
	if err == nil && na != n {
		err = fmt.Errorf("%d images to add to %d", na, n)
	}
	return add, err
}

// Run convolves image by image; the kernel splits an image over threads.
func (v *BlockedConv) Run(c *ir.Call) error {
	n, size, x, err := v.input(c)
	if err != nil {
		return err
	}
	add, err := v.residual(c, n)
	if err != nil {
		return err
	}
	y, err := blockedOut(c, n, &v.out)
	if err != nil {
		return err
	}
	ep := v.epilogue()
	par := c.Launcher()
	for i := range n {
		if add != nil {
			if i > 0 {
				again := *ep // each image's launch reads its own
				ep = &again
			}
			ep.Add = add[i*v.Add.Len():][:v.Add.Len()]
		}
		v.kernel.Run(cpu.Active(), par, y[i*v.out.Len():][:v.out.Len()], x[i*size:][:size], ep)
	}
	return nil
}

// BlockedPool is a MaxPool or AveragePool from one layout to another.
type BlockedPool struct{ pool conv.Pool }

// NewBlockedPool makes the pooling of op, a *MaxPool or *AveragePool.
func NewBlockedPool(op Operator, in, out Layout) (*BlockedPool, error) {
	p := &BlockedPool{conv.Pool{In: in, Out: out}}
	var w *Window
	switch op := op.(type) {
	case *MaxPool:
		w, p.pool.Kind = &op.Window, conv.MaxPool
	case *AveragePool:
		w, p.pool.Kind = &op.Window, conv.AveragePool
		if op.CountIncludePad {
			p.pool.Kind = conv.AveragePoolIncludePad
		}
	default:
		return nil, errors.New("no pooling")
	}
	if len(w.Kernel) != 2 {
		return nil, fmt.Errorf("kernel has %d axes, want 2", len(w.Kernel))
	}
	g, err := w.resolve([]int{in.H, in.W}, w.Kernel)
	if err != nil {
		return nil, err
	}
	if g.out[0] != out.H || g.out[1] != out.W {
		return nil, fmt.Errorf("the window takes %d×%d to %v, not to %d×%d", in.H, in.W, g.out, out.H, out.W)
	}
	k := &p.pool
	k.KH, k.KW, k.StrideH, k.StrideW, k.DilationH, k.DilationW = g.kernel[0], g.kernel[1], g.stride[0], g.stride[1], g.dilation[0], g.dilation[1]
	k.Top, k.Left, k.Bottom, k.Right = g.before[0], g.before[1], g.after[0], g.after[1]
	return p, k.Check()
}

// Infer gives the blocked type.
func (p *BlockedPool) Infer(c *ir.InferContext) error {
	n := ir.Unknown
	if s := c.Shape(0); len(s) > 0 {
		n = s[0]
	}
	c.SetOut(0, BlockedType(n, p.pool.Out))
	return nil
}

// Run pools image by image.
func (p *BlockedPool) Run(c *ir.Call) error {
	n, x, err := blockedIn(c, 0, &p.pool.In)
	if err != nil {
		return err
	}
	y, err := blockedOut(c, n, &p.pool.Out)
	if err != nil {
		return err
	}
	par := c.Launcher()
	blockedEach(n, &p.pool.Out, y, &p.pool.In, x, func(y, x []float32) { p.pool.Run(cpu.Active(), par, y, x) })
	return nil
}
