package window

import (
	"errors"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
)

// WideBorder reports whether the padding is much larger than the image.
func (s *ConvShape) WideBorder() bool {
	for i := range s.In {
		if s.Before[i] > (s.Kernel[i]-1)*s.Dilation[i] || s.Dilation[i]*(s.Kernel[i]-1) > 64+2*s.In[i] {
			return true
		}
	}
	return false
}

// ConvShape is the geometry of a convolution of an n×c×D1…Dk input with m kernels of c/group
// channels.
type ConvShape struct {
	Geometry
	N, C, M, Group int
	Cg, Mg         int   // input and output channels per group
	Shape          []int // shape of the output
}

// Depth returns the number of multiplications per output.
func (s *ConvShape) Depth() int { return s.Cg * s.Taps() }

// NewConvShape checks the shapes of the input and of the weights, m×c/group×K1…Kk.
func NewConvShape(w *Window, group int, x, wt []int) (ConvShape, error) {
	s := ConvShape{Group: group}
	if len(x) < 3 || len(wt) != len(x) {
		return s, fail.Errorf("input has shape %v and weights %v, want the same rank of at least 3", x, wt)
	}
	if err := ConvKernel(w, wt[2:]); err != nil {
		return s, err
	}
	s.N, s.C, s.M = x[0], x[1], wt[0]
	s.Cg = wt[1]
	if s.M%group != 0 {
		return s, fail.Errorf("weights have %d output channels, not divisible by group %d", s.M, group)
	}
	if s.C%group != 0 || s.C/group != s.Cg {
		return s, fail.Errorf("input has %d channels, weights have %d in each of %d groups", s.C, s.Cg, group)
	}
	s.Mg = s.M / group
	var err error
	if s.Geometry, err = w.Resolve(x[2:], wt[2:]); err != nil {
		return s, err
	}
	s.Shape = append([]int{s.N, s.M}, s.Out...)
	return s, nil
}

// asRows returns s, or for images of width 1 an equal convolution of images of height 1, since
// kernels compute along rows.
func (s *ConvShape) asRows() *ConvShape {
	g := &s.Geometry
	if len(g.In) != 2 || g.In[0] == 1 || g.In[1] != 1 || g.Kernel[1] != 1 || g.Out[1] != 1 || g.Before[1] != 0 {
		return s
	}
	r := *s
	turn := func(v []int) []int { return []int{v[1], v[0]} }
	r.Geometry = Geometry{In: turn(g.In), Kernel: turn(g.Kernel), Stride: turn(g.Stride), Dilation: turn(g.Dilation),
		Before: turn(g.Before), After: turn(g.After), Out: turn(g.Out)}
	return &r
}

// ConvKernel checks that the attribute kernel_shape, if present, agrees with the weights.
func ConvKernel(w *Window, kernel []int) error {
	if w.Kernel == nil {
		return nil
	}
	for i, k := range w.Kernel {
		if len(w.Kernel) != len(kernel) || k != kernel[i] {
			return fail.Errorf("attribute kernel_shape is %v, the weights have %v", w.Kernel, kernel)
		}
	}
	return nil
}

// ConvBias checks that a bias has one element per output channel.
func ConvBias(shape []int, m int) error {
	if len(shape) != 1 || shape[0] != m {
		return fail.Errorf("bias has shape %v, want [%d]", shape, m)
	}
	return nil
}

// ReadGroup reads attribute group.
func ReadGroup(a *kit.Attrs) int {
	g := a.Int("group", 1)
	if g < 1 || g > Limit {
		a.Errorf("attribute group is %d, want 1 to %d", g, Limit)
		return 1
	}
	return g
}

// InferConv sets output 0 to the convolution of input ix with weights iw.
func InferConv(c *ir.InferContext, w *Window, group, ix, iw int, out ir.Type) error {
	var err error
	out.Shape, err = convDims(w, group, c.Shape(ix), c.Shape(iw))
	c.SetOut(0, out)
	return err
}

// convDims is NewConvShape for shapes that are partly unknown.
func convDims(w *Window, group int, x, wt []ir.Dim) ([]ir.Dim, error) {
	if x != nil && len(x) < 3 {
		return nil, fail.Errorf("input has rank %d, want at least 3", len(x))
	}
	if x != nil && wt != nil && len(x) != len(wt) {
		return nil, fail.Errorf("input has rank %d and weights %d, want the same", len(x), len(wt))
	}
	if wt != nil && len(wt) < 3 {
		return nil, errors.New("weights have no spatial axis, want rank at least 3")
	}
	rank := max(len(x), len(wt))
	if rank == 0 && w.Kernel != nil {
		rank = len(w.Kernel) + 2
	}
	if rank < 3 {
		return nil, nil
	}
	if x == nil {
		x = ir.UnknownDims(rank)
	}
	kernel := ir.UnknownDims(rank - 2)
	out := ir.UnknownDims(rank)
	out[0] = x[0]
	if wt != nil {
		out[1] = wt[0]
		copy(kernel, wt[2:])
		if m, ok := wt[0].Value(); ok && m%group != 0 {
			return nil, fail.Errorf("weights have %d output channels, not divisible by group %d", m, group)
		}
		if x[1].Differs(wt[1].Mul(ir.Known(group))) {
			return nil, fail.Errorf("input has %s channels, weights have %s in each of %d groups", x[1], wt[1], group)
		}
	}
	if w.Kernel != nil {
		if len(w.Kernel) != rank-2 {
			return nil, fail.Errorf("attribute kernel_shape has %d elements, want %d", len(w.Kernel), rank-2)
		}
		for i, k := range w.Kernel {
			if kernel[i].Differs(ir.Known(k)) {
				return nil, fail.Errorf("attribute kernel_shape is %v, the weights have %v", w.Kernel, kernel)
			}
			kernel[i] = ir.Known(k)
		}
	}
	sp, err := w.outDims(x[2:], kernel)
	if err != nil {
		return nil, err
	}
	copy(out[2:], sp)
	return out, nil
}
