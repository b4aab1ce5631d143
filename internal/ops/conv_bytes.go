package ops

import (
	"fmt"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/conv"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/kernels/quant"
	"github.com/onward-ml/onward/tensor"
)

// convWeights are weights of 8-bit integers, m×c/group×K1…Kk, packed with their
// zero points.
type convWeights struct {
	shape []int
	conv  *conv.Integer
}

// convWorthPacking reports whether the kernels for 8-bit integers suit the
// weights: few output channels for one channel of input would be mostly padding.
func convWorthPacking(shape []int, group int) bool {
	if len(shape) < 3 || len(shape) > 5 || shape[0]%group != 0 || product(shape) == 0 {
		return false
	}
	mg := shape[0] / group
	return shape[1] > 1 || mg == 1 || mg > 4
}

// packConv packs weights for which convWorthPacking holds, with zero points that
// checkConvZeros accepts.
func packConv(w, zero *tensor.Tensor, group int) (*convWeights, error) {
	p := &convWeights{shape: w.Shape()}
	kernel := p.shape[2:]
	// Any shape with these channels and this kernel serves for packing.
	ones, none := make([]int, len(kernel)), make([]int, len(kernel))
	for i := range ones {
		ones[i] = 1
	}
	s := &conv.Shape{N: 1, Cin: p.shape[1] * group, Cout: p.shape[0], Group: group, In: kernel, Kernel: kernel,
		Stride: ones, Dilation: ones, PadBegin: none, PadEnd: none, Out: ones}
	var zeros []int32
	if zero != nil {
		zeros = make([]int32, zero.Len())
		widenBytes(zeros, zero)
	}
	var err error
	if w.DType() == tensor.TypeInt8 {
		p.conv, err = conv.NewInteger(cpu.Active(), s, tensor.Of[int8](w), 0, zeros, nil)
	} else {
		p.conv, err = conv.NewInteger(cpu.Active(), s, tensor.Of[uint8](w), 0, zeros, nil)
	}
	return p, err
}

// prepareConvBytes packs the weights, input iw of a convolution, when they and
// their zero points are constant; nil when they are not.
func prepareConvBytes(in []tensor.Value, types []ir.Type, iw, iz, group int) (*convWeights, error) {
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

// convZeroFits reports whether a zero point of the weights is one element or one
// per output channel.
func convZeroFits(zero *tensor.Tensor, m int) bool {
	return zero == nil || zero.Len() == 1 || zero.Rank() == 1 && zero.Len() == m
}

// over lays packed weights over the shapes of a run.
func (w *convWeights) over(c *ir.Call, s *convShape, xz *tensor.Tensor, bias []int32) (*conv.Integer, gemm.Par, error) {
	var zero [1]int32
	if xz != nil {
		widenBytes(zero[:], xz)
	}
	d := w.conv.At(&conv.Shape{N: s.n, Cin: s.c, Cout: s.m, Group: s.group, In: s.in, Kernel: s.kernel, Stride: s.stride,
		Dilation: s.dilation, PadBegin: s.before, PadEnd: s.after, Out: s.out}, zero[0], bias)
	shared, each := d.Scratch()
	if err := c.Reserve(int64(shared) + int64(slotCount(s.n*s.m*product(s.out)))*int64(each)); err != nil {
		return nil, nil, err
	}
	if s.n*s.m*product(s.out)*s.depth() < 1<<15 {
		return d, nil, nil
	}
	return d, func(n int, fn func(lo, hi int)) {
		c.Parallel(n, 1, func(lo, hi int) {
			if c.Err() == nil {
				fn(lo, hi)
			}
		})
	}, nil
}

// integers convolves x to sums.
func (w *convWeights) integers(c *ir.Call, s *convShape, x, xz *tensor.Tensor, bias, y []int32) error {
	d, par, err := w.over(c, s, xz, bias)
	if err != nil {
		return err
	}
	if x.DType() == tensor.TypeInt8 {
		conv.RunInteger(d, par, y, tensor.Of[int8](x))
	} else {
		conv.RunInteger(d, par, y, tensor.Of[uint8](x))
	}
	return c.Err()
}

// requantized convolves x to bytes in the steps of y; scale has one element or
// one per output channel.
func (w *convWeights) requantized(c *ir.Call, s *convShape, x, xz *tensor.Tensor, bias []int32, y *tensor.Tensor, scale []float32, yz *tensor.Tensor) error {
	d, par, err := w.over(c, s, xz, bias)
	if err != nil {
		return err
	}
	if x.DType() == tensor.TypeInt8 {
		runRequantized(d, par, tensor.Of[int8](x), y, scale, yz)
	} else {
		runRequantized(d, par, tensor.Of[uint8](x), y, scale, yz)
	}
	return c.Err()
}

func runRequantized[X quant.Byte](d *conv.Integer, par gemm.Par, x []X, y *tensor.Tensor, scale []float32, yz *tensor.Tensor) {
	if y.DType() == tensor.TypeInt8 {
		conv.RunRequantized(d, par, tensor.Of[int8](y), x, scale, tensor.Of[int8](yz)[0])
	} else {
		conv.RunRequantized(d, par, tensor.Of[uint8](y), x, scale, tensor.Of[uint8](yz)[0])
	}
}

// widenBytes writes the elements of a tensor of 8-bit integers to dst.
func widenBytes(dst []int32, t *tensor.Tensor) {
	if t.DType() == tensor.TypeInt8 {
		for i, v := range tensor.Of[int8](t) {
			dst[i] = int32(v)
		}
		return
	}
	for i, v := range tensor.Of[uint8](t) {
		dst[i] = int32(v)
	}
}

// checkConvZeros checks the zero points of a convolution: one for the input, and
// one or one per output channel for the weights.
func checkConvZeros(s *convShape, xz, wz *tensor.Tensor) error {
	if xz != nil && xz.Len() != 1 {
		return fmt.Errorf("zero point of the input has shape %v, want one element", xz.Shape())
	}
	if !convZeroFits(wz, s.m) {
		return fmt.Errorf("zero point of the weights has shape %v, want one element or [%d]", wz.Shape(), s.m)
	}
	return nil
}

// convBytesShape checks the shapes of a convolution of 8-bit integers and packs
// the weights unless they are already or the plain engine wants them as they are.
func convBytesShape(c *ir.Call, win *Window, group int, x, w, xz, wz *tensor.Tensor, packed *convWeights) (convShape, *convWeights, error) {
	shape := []int(nil)
	switch {
	case packed != nil:
		shape = packed.shape
	case w == nil:
		return convShape{}, nil, fmt.Errorf("weights are missing")
	default:
		shape = w.Shape()
	}
	s, err := newConvShape(win, group, x.Shape(), shape)
	if err != nil {
		return s, nil, err
	}
	if err := checkConvZeros(&s, xz, wz); err != nil {
		return s, nil, err
	}
	if packed != nil || c.Generic || !convWorthPacking(shape, group) || product(s.shape) == 0 {
		return s, packed, nil
	}
	if err := c.Reserve(int64(s.group)*quantLen(s.depth(), s.mg) + 5*int64(product(shape))); err != nil {
		return s, nil, err
	}
	packed, err = packConv(w, wz, group)
	return s, packed, err
}

// convolveBytes is the convolution over int32: of x and w less their zero points,
// which may be nil; that of w may have one element per output channel.
func convolveBytes(c *ir.Call, s *convShape, x, w, xz, wz *tensor.Tensor, bias, y []int32) error {
	xs, err := bytesLess(c, x, xz, 1)
	if err != nil {
		return err
	}
	ws, err := bytesLess(c, w, wz, s.m)
	if err != nil {
		return err
	}
	return convolve(c, s, xs, ws, bias, y)
}
