package window

import (
	"bytes"
	"slices"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/conv"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/kernels/quant"
	"github.com/onward-ml/onward/tensor"
)

// ConvPlan is a requantizing convolution that is prepared for its weights, the shape of its input,
// scales, zero points and bias. It is immutable.
type ConvPlan struct {
	Shape ConvShape
	Scale []float32 // one element, or one per output channel
	Last  bool      // images have the channels innermost
	conv  *conv.Integer
	in    []int    // shape of the input
	other [][]byte // contents of the other inputs
}

// Plan returns the plan of the last run if input 0 has the same shape and the given inputs the same
// contents, and nil otherwise. w may be nil.
func (w *ConvWeights) Plan(c *ir.Call, inputs ...int) *ConvPlan {
	if w == nil {
		return nil
	}
	p := w.last.Load()
	if p == nil || !slices.Equal(p.in, c.Tensor(0).Shape()) {
		return nil
	}
	for k, i := range inputs {
		if !bytes.Equal(p.other[k], contents(c.Tensor(i))) {
			return nil
		}
	}
	return p
}

func contents(t *tensor.Tensor) []byte {
	if t == nil {
		return nil
	}
	return t.Bytes()
}

// NewPlan returns a plan for the shapes and scales of a call, and keeps it for [ConvWeights.Plan].
// xz is the zero point of the input, and inputs lists the inputs besides the first on which the
// plan depends. last says that images have the channels innermost if there are kernels for that.
func (w *ConvWeights) NewPlan(c *ir.Call, s *ConvShape, xz, bias *tensor.Tensor, scale []float32, last bool,
	inputs ...int) *ConvPlan {
	p := &ConvPlan{Shape: *s, Scale: scale, in: slices.Clone(c.Tensor(0).Shape())}
	for _, i := range inputs {
		p.other = append(p.other, slices.Clone(contents(c.Tensor(i))))
	}
	var b []int32
	if bias != nil {
		b = slices.Clone(tensor.MustData[int32](bias))
	}
	p.conv = w.at(s, xz, b)
	p.Last = last && p.conv.Last()
	w.last.Store(p)
	return p
}

// Packed reports whether there are kernels for the plan.
func (p *ConvPlan) Packed() bool { return p.conv != nil }

// Requantized computes the convolution in 8-bit integers with the scale and zero point of y. If the
// plan has the channels innermost, after, which may be nil, is called for ranges of y as soon as
// they are complete.
func (p *ConvPlan) Requantized(c *ir.Call, x, y, yz *tensor.Tensor, after func(lo, hi int)) error {
	par, err := reserveConv(c, &p.Shape, p.conv, p.Last)
	if err != nil {
		return err
	}
	if x.DType() == tensor.TypeInt8 {
		runRequantized(p, par, tensor.MustData[int8](x), y, yz, after)
	} else {
		runRequantized(p, par, tensor.MustData[uint8](x), y, yz, after)
	}
	return c.Err()
}

func runRequantized[X quant.Byte](p *ConvPlan, par gemm.Par, x []X, y, yz *tensor.Tensor, after func(lo, hi int)) {
	if y.DType() == tensor.TypeInt8 {
		requantizedTo(p, par, tensor.MustData[int8](y), x, tensor.MustData[int8](yz)[0], after)
	} else {
		requantizedTo(p, par, tensor.MustData[uint8](y), x, tensor.MustData[uint8](yz)[0], after)
	}
}

func requantizedTo[X, Y quant.Byte](p *ConvPlan, par gemm.Par, y []Y, x []X, zero Y, after func(lo, hi int)) {
	if p.Last {
		conv.RunRequantizedLast(p.conv, par, y, x, p.Scale, zero, after)
	} else {
		conv.RunRequantized(p.conv, par, y, x, p.Scale, zero)
	}
}
