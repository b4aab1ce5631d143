package ops

import (
	"fmt"
	"math"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/tensor"
)

// Activation is a function that a fused operator applies last. The zero
// Activation is none.
type Activation struct {
	Kind   ActivationKind
	Lo, Hi float32 // bounds of ActClip
}

// ActivationKind is the function of an Activation.
type ActivationKind uint8

// The functions that fused operators apply.
const (
	ActNone ActivationKind = iota
	ActRelu
	ActClip
)

func (a Activation) gemm() gemm.Activation {
	switch a.Kind {
	case ActRelu:
		return gemm.Relu
	case ActClip:
		return gemm.Clip
	}
	return gemm.None
}

// apply computes the activation in place.
func (a Activation) apply(x []float32) {
	switch a.Kind {
	case ActRelu:
		vec.ReluF32(cpu.Active(), x, x)
	case ActClip:
		vec.ClipF32(cpu.Active(), x, x, a.Lo, a.Hi)
	}
}

// FusedConv is a Conv of float, to which input 3, of the output's shape, is added
// and then an activation applied:
//
//	Y = act(conv(X, W) + B + Z)
type FusedConv struct {
	Conv
	Act Activation
}

// Infer is that of Conv.
func (f *FusedConv) Infer(c *ir.InferContext) error {
	if e := c.Elem(0); e != tensor.TypeFloat32 {
		return fmt.Errorf("input is %s, want float", e)
	}
	return f.Conv.Infer(c)
}

// Prepare packs the weights over three axes and those of depthwise convolutions;
// others are used as they are.
func (f *FusedConv) Prepare(in []tensor.Value, types []ir.Type) (ir.Operator, []int, error) {
	if op, drop, err := prepareVolume(f, in, types); op != nil || err != nil {
		return op, drop, err
	}
	return prepareDepthwise(f, in, types)
}

// Run convolves and finishes the output in place.
func (f *FusedConv) Run(c *ir.Call) error {
	if err := c.Inner(&f.Conv); err != nil {
		return err
	}
	return f.finish(c, c.Out[0].(*tensor.Tensor))
}

// finish adds Z and applies the activation in place.
func (f *FusedConv) finish(c *ir.Call, y *tensor.Tensor) error {
	dst := tensor.Of[float32](y)
	var add []float32
	if z := c.Tensor(3); z != nil {
		if fmt.Sprint(z.Shape()) != fmt.Sprint(y.Shape()) {
			return fmt.Errorf("input Z has shape %v, the output %v", z.Shape(), y.Shape())
		}
		add = tensor.Of[float32](z)
	}
	c.Parallel(len(dst), 1<<14, func(lo, hi int) {
		d := dst[lo:hi]
		if add != nil {
			vec.AddF32(cpu.Active(), d, d, add[lo:hi])
		}
		f.Act.apply(d)
	})
	return nil
}

// ChannelAffine computes act(x·Scale[c] + Shift[c]) for every channel c of an
// N×C×… tensor of float: a BatchNormalization with constant statistics.
type ChannelAffine struct {
	Scale, Shift []float32
	Act          Activation
}

// Infer keeps the shape.
func (a *ChannelAffine) Infer(c *ir.InferContext) error {
	if s := c.Shape(0); s != nil && (len(s) < 2 || s[1].Differs(ir.Known(len(a.Scale)))) {
		return fmt.Errorf("input has shape %v, want %d channels", s, len(a.Scale))
	}
	return sameAsInput(c)
}

// Run scales plane by plane.
func (a *ChannelAffine) Run(c *ir.Call) error {
	x := c.Tensor(0)
	if x.Rank() < 2 || x.Dim(1) != len(a.Scale) {
		return fmt.Errorf("input has shape %v, want %d channels", x.Shape(), len(a.Scale))
	}
	y, err := c.Output(0, x.DType(), x.Shape()...)
	if err != nil {
		return err
	}
	src, dst := tensor.Of[float32](x), tensor.Of[float32](y)
	planes := x.Dim(0) * x.Dim(1)
	if len(src) == 0 {
		return nil
	}
	size := len(src) / planes
	c.Parallel(planes, 1+(1<<14)/size, func(lo, hi int) {
		for p := lo; p < hi; p++ {
			ch := p % len(a.Scale)
			d := dst[p*size:][:size]
			vec.ScaleShiftF32(cpu.Active(), d, src[p*size:][:size], a.Scale[ch], a.Shift[ch])
			a.Act.apply(d)
		}
	})
	return nil
}

// ChannelOperand returns the affine function that an Add, Sub, Mul or Div of a
// float tensor of shape x with a constant is, when the constant holds one value per
// channel, and for Div a power of two; nil otherwise. second says whether the constant is the second input.
func ChannelOperand(op Operator, x []ir.Dim, k *tensor.Tensor, second bool) *ChannelAffine {
	if len(x) < 3 || k.DType() != tensor.TypeFloat32 {
		return nil
	}
	c, ok := x[1].Value()
	if !ok || c < 2 || k.Len() != c || k.Rank() > len(x) {
		return nil
	}
	var b axisBroadcast
	switch op := op.(type) {
	case *Add:
		b = op.axisBroadcast
	case *Mul:
		b = op.axisBroadcast
	case *Sub:
		b = op.axisBroadcast
	case *Div:
		b = op.axisBroadcast
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
		if at, err = b.span(len(x), k.Rank()); err != nil {
			return nil
		}
	}
	// Axis 1 of x must be the axis of the constant that is not 1.
	if i := 1 - at; i < 0 || i >= k.Rank() || k.Dim(i) != c {
		return nil
	}
	a := &ChannelAffine{Scale: make([]float32, c), Shift: make([]float32, c)}
	for i, v := range tensor.Of[float32](k) {
		a.Scale[i] = 1
		switch op.(type) {
		case *Add:
			a.Shift[i] = v
		case *Mul:
			a.Scale[i] = v
		case *Div: // a product only where it is the same number
			frac, exp := math.Frexp(float64(v))
			if math.Abs(frac) != 0.5 || exp < -120 || exp > 120 {
				return nil
			}
			a.Scale[i] = 1 / v
		case *Sub:
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

// ChannelShuffle deals the channels of an N×C×… tensor of float out of Groups
// groups: output channel i is input channel i mod Groups · C/Groups + ⌊i/Groups⌋
// (Zhang et al., ShuffleNet, 2017).
type ChannelShuffle struct{ Groups int }

func (s *ChannelShuffle) source(i, c int) int { return i%s.Groups*(c/s.Groups) + i/s.Groups }

// Order returns for each of c output channels which input channel it is.
func (s *ChannelShuffle) Order(c int) []int {
	r := make([]int, c)
	for i := range r {
		r[i] = s.source(i, c)
	}
	return r
}

// Infer keeps the shape.
func (s *ChannelShuffle) Infer(c *ir.InferContext) error { return sameAsInput(c) }

// Run copies plane by plane.
func (s *ChannelShuffle) Run(c *ir.Call) error {
	x := c.Tensor(0)
	if x.Rank() < 2 || x.Dim(1)%s.Groups != 0 {
		return fmt.Errorf("input has shape %v, want channels divisible by %d", x.Shape(), s.Groups)
	}
	y, err := c.Output(0, x.DType(), x.Shape()...)
	if err != nil || x.Len() == 0 {
		return err
	}
	src, dst, ch := tensor.Of[float32](x), tensor.Of[float32](y), x.Dim(1)
	size := x.Len() / (x.Dim(0) * ch)
	c.Parallel(x.Dim(0)*ch, 1+(1<<14)/size, func(lo, hi int) {
		for p := lo; p < hi; p++ {
			copy(dst[p*size:][:size], src[(p/ch*ch+s.source(p%ch, ch))*size:])
		}
	})
	return nil
}
