package blocked

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/tensor"
)

// ChannelAffine computes act(x·Scale[c] + Shift[c]) for every channel c of an
// N×C×… tensor of float: a BatchNormalization with constant statistics.
type ChannelAffine struct {
	Scale, Shift []float32
	Act          kit.Activation
}

// Infer keeps the shape.
func (a *ChannelAffine) Infer(c *ir.InferContext) error {
	if s := c.Shape(0); s != nil && (len(s) < 2 || s[1].Differs(ir.Known(len(a.Scale)))) {
		return fail.Errorf("input has shape %v, want %d channels", s, len(a.Scale))
	}
	return kit.SameAsInput(c)
}

// Run scales plane by plane.
func (a *ChannelAffine) Run(c *ir.Call) error {
	x := c.Tensor(0)
	if x.Rank() < 2 || x.Dim(1) != len(a.Scale) {
		return fail.Errorf("input has shape %v, want %d channels", x.Shape(), len(a.Scale))
	}
	y, err := c.Output(0, x.DType(), x.Shape()...)
	if err != nil {
		return err
	}
	src, dst := tensor.MustData[float32](x), tensor.MustData[float32](y)
	planes := x.Dim(0) * x.Dim(1)
	if len(src) == 0 {
		return nil
	}
	size := len(src) / planes
	if n := len(a.Scale); size == 1 { // rows of all channels
		c.Parallel(x.Dim(0), kit.GrainFor(n), func(lo, hi int) {
			for at := lo * n; at < hi*n; at += n {
				for i, j := range ir.Steps(c, n) {
					d := dst[at+i : at+j]
					vec.MulAddF32(cpu.Active(), d, src[at+i:at+j], a.Scale[i:j], a.Shift[i:j])
					a.Act.Apply(d)
				}
			}
		})
		return nil
	}
	c.Parallel(planes, 1+(1<<14)/size, func(lo, hi int) {
		for p := lo; p < hi; p++ {
			ch := p % len(a.Scale)
			d := dst[p*size:][:size]
			vec.ScaleShiftF32(cpu.Active(), d, src[p*size:][:size], a.Scale[ch], a.Shift[ch])
			a.Act.Apply(d)
		}
	})
	return nil
}

// ChannelOperand returns an Add, Sub, Mul or Div of a float tensor of shape x by a constant as an
// affine function. It returns nil unless the constant holds one value per channel, for Div powers
// of two. second says whether the constant is the second input.
func ChannelOperand(op kit.Operator, x []ir.Dim, k *tensor.Tensor, second bool) *ChannelAffine {
	if len(x) < 3 || k.DType() != tensor.TypeFloat32 {
		return nil
	}
	c, ok := x[1].Value()
	if !ok || c < 2 || k.Len() != c || k.Rank() > len(x) {
		return nil
	}
	var b elementwise.AxisBroadcast
	switch op := op.(type) {
	case *ops.Add:
		b = op.AxisBroadcast
	case *ops.Mul:
		b = op.AxisBroadcast
	case *ops.Sub:
		b = op.AxisBroadcast
	case *ops.Div:
		b = op.AxisBroadcast
		if !second {
			return nil
		}
	default:
		return nil
	}
	at := len(x) - k.Rank()
	if b.Legacy {
		if !b.Repeat || !second {
			return nil
		}
		var err error
		if at, err = b.Span(len(x), k.Rank()); err != nil {
			return nil
		}
	}
	// Axis 1 of x must be the axis of the constant that is not 1.
	if i := 1 - at; i < 0 || i >= k.Rank() || k.Dim(i) != c {
		return nil
	}
	a := &ChannelAffine{Scale: make([]float32, c), Shift: make([]float32, c)}
	for i, v := range tensor.MustData[float32](k) {
		a.Scale[i] = 1
		switch op.(type) {
		case *ops.Add:
			a.Shift[i] = v
		case *ops.Mul:
			a.Scale[i] = v
		case *ops.Div: // a multiplication only if the result is the same
			frac, exp := math.Frexp(float64(v))
			if math.Abs(frac) != 0.5 || exp < -120 || exp > 120 {
				return nil
			}
			a.Scale[i] = 1 / v
		case *ops.Sub:
			a.Shift[i] = -v
			if !second {
				a.Scale[i], a.Shift[i] = -1, v
			}
		}
	}
	return a
}

// Then returns the function that applies b after a; a must have no activation.
func (a *ChannelAffine) Then(b *ChannelAffine) *ChannelAffine {
	r := &ChannelAffine{Scale: make([]float32, len(a.Scale)), Shift: make([]float32, len(a.Scale)), Act: b.Act}
	for i := range a.Scale {
		r.Scale[i] = float32(float64(a.Scale[i]) * float64(b.Scale[i]))
		r.Shift[i] = float32(float64(a.Shift[i])*float64(b.Scale[i]) + float64(b.Shift[i]))
	}
	return r
}
