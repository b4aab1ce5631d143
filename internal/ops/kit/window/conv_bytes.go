package window

import (
	"slices"
	"sync/atomic"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/conv"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/matmul"
	"github.com/onward-ml/onward/tensor"
)

// ConvWeights are packed 8-bit integer weights, m×c/group×K1…Kk, and their zero points.
type ConvWeights struct {
	shape []int
	conv  *conv.Integer
	last  atomic.Pointer[ConvPlan]
}

// convWorthPacking reports whether the 8-bit kernels are efficient for the weights: with few output
// channels per input channel, most of the work would be padding.
func convWorthPacking(shape []int, group int) bool {
	if len(shape) < 3 || len(shape) > 5 || shape[0]%group != 0 || kit.Product(shape) == 0 {
		return false
	}
	mg := shape[0] / group
	return shape[1] > 1 || mg == 1 || mg > 4
}

// packConv packs weights for which convWorthPacking holds and whose zero points checkConvZeros
// accepts.
func packConv(w, zero *tensor.Tensor, group int) (*ConvWeights, error) {
	p := &ConvWeights{shape: w.Shape()}
	kernel := p.shape[2:]
	// Packing depends on the channels and the kernel only, so use any shape.
	ones, none := make([]int, len(kernel)), make([]int, len(kernel))
	for i := range ones {
		ones[i] = 1
	}
	s := &conv.Shape{N: 1, Cin: p.shape[1] * group, Cout: p.shape[0], Group: group, In: kernel, Kernel: kernel,
		Stride: ones, Dilation: ones, PadBegin: none, PadEnd: none, Out: ones}
	var zeros []int32
	if zero != nil {
		zeros = make([]int32, zero.Len())
		WidenBytes(zeros, zero)
	}
	var err error
	if w.DType() == tensor.TypeInt8 {
		p.conv, err = conv.NewInteger(cpu.Active(), s, tensor.MustData[int8](w), 0, zeros, nil)
	} else {
		p.conv, err = conv.NewInteger(cpu.Active(), s, tensor.MustData[uint8](w), 0, zeros, nil)
	}
	return p, err
}

// ConvPacksLast reports whether convolutions by constant weights w with the zero point zero have
// kernels for images with the channels innermost, for most shapes. Weights must be symmetric, as
// those of quantizers are.
func ConvPacksLast(w, zero *tensor.Tensor, group int) bool {
	const depth = 1 << 15 // of one output; see packBytes
	if !convWorthPacking(w.Shape(), group) || !convZeroFits(zero, w.Dim(0)) || kit.Product(w.Shape()[1:]) > depth {
		return false
	}
	zeros, middle := make([]int32, zero.Len()), int32(0)
	WidenBytes(zeros, zero)
	if w.DType() == tensor.TypeUint8 {
		middle = 128
	}
	return !slices.ContainsFunc(zeros, func(z int32) bool { return z != middle })
}

// PrepareConvBytes packs the weights, input iw of a convolution. It returns nil if weights or zero
// points are not constant.
func PrepareConvBytes(in []tensor.Value, types []ir.Type, iw, iz, group int) (*ConvWeights, error) {
	w, ok := in[iw].(*tensor.Tensor)
	if !ok || !convWorthPacking(w.Shape(), group) {
		return nil, nil
	}
	var zero *tensor.Tensor
	if iz < len(types) && types[iz].Known() {
		if zero, ok = in[iz].(*tensor.Tensor); !ok || !convZeroFits(zero, w.Dim(0)) {
			return nil, nil
		}
	}
	return packConv(w, zero, group)
}

// convZeroFits reports whether a zero point of the weights has one element, or one per output
// channel.
func convZeroFits(zero *tensor.Tensor, m int) bool {
	return zero == nil || zero.Len() == 1 || zero.Rank() == 1 && zero.Len() == m
}

// at returns the convolution for the shapes of a run.
func (w *ConvWeights) at(s *ConvShape, xz *tensor.Tensor, bias []int32) *conv.Integer {
	var zero [1]int32
	if xz != nil {
		WidenBytes(zero[:], xz)
	}
	return w.conv.At(&conv.Shape{N: s.N, Cin: s.C, Cout: s.M, Group: s.Group, In: s.In,
		Kernel: s.Kernel, Stride: s.Stride,
		Dilation: s.Dilation, PadBegin: s.Before, PadEnd: s.After, Out: s.Out}, zero[0], bias)
}

// reserveConv reserves the memory of a run, and returns how to distribute it over threads.
func reserveConv(c *ir.Call, s *ConvShape, d *conv.Integer, last bool) (gemm.Par, error) {
	shared, each := d.Scratch(last)
	spaces := kit.WorkspaceCount(c, s.N*s.M*kit.Product(s.Out))
	if err := c.Reserve(int64(shared) + int64(spaces)*int64(each)); err != nil {
		return nil, err
	}
	if s.N*s.M*kit.Product(s.Out)*s.Depth() < 1<<15 {
		return nil, nil
	}
	return func(n int, fn func(lo, hi int)) {
		c.Parallel(n, 1, func(lo, hi int) {
			if c.Err() == nil {
				fn(lo, hi)
			}
		})
	}, nil
}

// Integers computes the convolution in int32.
func (w *ConvWeights) Integers(c *ir.Call, s *ConvShape, x, xz *tensor.Tensor, bias, y []int32) error {
	d := w.at(s, xz, bias)
	par, err := reserveConv(c, s, d, false)
	if err != nil {
		return err
	}
	if x.DType() == tensor.TypeInt8 {
		conv.RunInteger(d, par, y, tensor.MustData[int8](x))
	} else {
		conv.RunInteger(d, par, y, tensor.MustData[uint8](x))
	}
	return c.Err()
}

// WidenBytes converts the 8-bit integers of a tensor to int32 in dst.
func WidenBytes(dst []int32, t *tensor.Tensor) {
	if t.DType() == tensor.TypeInt8 {
		for i, v := range tensor.MustData[int8](t) {
			dst[i] = int32(v)
		}
		return
	}
	for i, v := range tensor.MustData[uint8](t) {
		dst[i] = int32(v)
	}
}

// checkConvZeros checks the zero points of a convolution: one for the input, and one or one per
// output channel for the weights.
func checkConvZeros(s *ConvShape, xz, wz *tensor.Tensor) error {
	if xz != nil && xz.Len() != 1 {
		return fail.Errorf("zero point of the input has shape %v, want one element", xz.Shape())
	}
	if !convZeroFits(wz, s.M) {
		return fail.Errorf("zero point of the weights has shape %v, want one element or [%d]", wz.Shape(), s.M)
	}
	return nil
}

// ConvBytesShape checks the shapes of a convolution of 8-bit integers with an input of shape in,
// the channels first. It packs the weights unless they are packed already, or the call asks for
// generic kernels.
func ConvBytesShape(c *ir.Call, win *Window, group int, in []int, w, xz, wz *tensor.Tensor,
	packed *ConvWeights) (ConvShape, *ConvWeights, error) {
	shape := []int(nil)
	switch {
	case packed != nil:
		shape = packed.shape
	case w == nil:
		return ConvShape{}, nil, fail.Errorf("weights are absent")
	default:
		shape = w.Shape()
	}
	s, err := NewConvShape(win, group, in, shape)
	if err != nil {
		return s, nil, err
	}
	if err := checkConvZeros(&s, xz, wz); err != nil {
		return s, nil, err
	}
	if packed != nil || c.Generic || !convWorthPacking(shape, group) || kit.Product(s.Shape) == 0 {
		return s, packed, nil
	}
	if err := c.Reserve(int64(s.Group)*matmul.QuantLen(s.Depth(), s.Mg) + 5*int64(kit.Product(shape))); err != nil {
		return s, nil, err
	}
	packed, err = packConv(w, wz, group)
	return s, packed, err
}

// ConvolveBytes convolves x and w, minus their zero points. A zero point may be nil; that of w may
// have one element per output channel. Its sums are exact in float64, and wrap around in int32.
func ConvolveBytes(c *ir.Call, s *ConvShape, x, w, xz, wz *tensor.Tensor, bias, y []int32) error {
	xs, err := matmul.BytesLess(c, x, xz, 1)
	if err != nil {
		return err
	}
	ws, err := matmul.BytesLess(c, w, wz, s.M)
	if err != nil {
		return err
	}
	var wide [4][]float64
	for i, v := range [][]int32{xs, ws, bias, y} {
		if v == nil {
			continue
		}
		if wide[i], err = ir.ScratchOf[float64](c, len(v)); err != nil {
			return err
		}
		if i < 3 {
			vec.I32ToF64(cpu.Active(), wide[i], v)
		}
	}
	if err := Convolve(c, s, wide[0], wide[1], wide[2], wide[3]); err != nil {
		return err
	}
	c.Parallel(len(y), kit.GrainCheap, func(lo, hi int) {
		for i, v := range wide[3][lo:hi] {
			y[lo+i] = int32(int64(v))
		}
	})
	return nil
}
