package ops

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/fourier"
	"github.com/onward-ml/onward/tensor"
)

// DFT is the discrete Fourier transform along one axis. The last dimension of the input is 1 (real)
// or 2 (real and imaginary part). If Onesided is set, the forward transform of a real signal
// returns the first ⌊n/2⌋+1 frequencies, and the inverse transform converts these to a real signal.
// The signal is truncated or zero-padded to dft_length
// (https://onnx.ai/onnx/operators/onnx__DFT.html).
type DFT struct{ Inverse, Onesided bool }

var _ = kit.Register(&kit.Def{Name: "DFT", Since: kit.Versions{17, 20}, In: "input:T1, dft_length:T2?, axis:int64?",
	Out:   "output:T1",
	Class: kit.ClassOther,
	Types: "T1: @float; T2: int32 int64", Build: func(a *kit.Attrs, opset int) kit.Operator {
		if opset < 20 {
			a.SetInput(2, tensor.Scalar(int64(a.Int("axis", 1))))
		}
		return &DFT{a.Bool("inverse", false), a.Bool("onesided", false)}
	}})

// dftAxis checks an axis. Every dimension but the last is allowed.
func dftAxis(axis, rank int) (int, error) {
	if rank < 2 {
		return 0, fail.Errorf("input has rank %d, want at least 2", rank)
	}
	n, err := kit.NormalAxis(axis, rank)
	if err == nil && n == rank-1 {
		err = fail.Errorf("axis %d is the last dimension, which holds the real and imaginary parts", axis)
	}
	return n, err
}

// Infer determines the length along the axis and the number of parts.
func (op *DFT) Infer(c *ir.InferContext) error {
	s := c.Shape(0)
	out := ir.UnrankedTensor(c.Elem(0))
	if s == nil {
		c.SetOut(0, out)
		return nil
	}
	rank := len(s)
	if rank < 2 {
		return fail.Errorf("input has rank %d, want at least 2", rank)
	}
	out.Shape = append([]ir.Dim{}, s...)
	out.Shape[rank-1] = ir.Known(2)
	if op.Inverse && op.Onesided {
		out.Shape[rank-1] = ir.Known(1)
	}
	axis, known := rank-2, !c.Has(2)
	if t := c.Const(2); t != nil {
		v, err := kit.ScalarInt(t, "axis")
		if err != nil {
			return err
		}
		if axis, err = dftAxis(v, rank); err != nil {
			return err
		}
		known = true
	}
	if !known {
		for i := range rank - 1 {
			out.Shape[i] = ir.Unknown
		}
		c.SetOut(0, out)
		return nil
	}
	n := s[axis]
	if op.Inverse && op.Onesided {
		n = n.Sub(ir.Known(1)).Mul(ir.Known(2))
	}
	if c.Has(1) {
		n = ir.Unknown
		if d := c.Contents(1); len(d) == 1 {
			n = d[0]
		}
	}
	if op.Onesided && !op.Inverse {
		n = n.Div(ir.Known(2)).Add(ir.Known(1))
	}
	if v, ok := n.Value(); ok && v < 0 {
		n = ir.Unknown
	}
	out.Shape[axis] = n
	c.SetOut(0, out)
	return nil
}

// Run transforms line by line, in float64.
func (op *DFT) Run(c *ir.Call) error {
	x := c.Tensor(0)
	s, rank := x.Shape(), x.Rank()
	axis := -2
	var err error
	if c.Has(2) {
		if axis, err = kit.ScalarInt(c.Tensor(2), "axis"); err != nil {
			return err
		}
	}
	if axis, err = dftAxis(axis, rank); err != nil {
		return err
	}
	parts := s[rank-1]
	if parts != 1 && parts != 2 {
		return fail.Errorf("input has shape %v, want a last dimension of 1 or 2", s)
	}
	if op.Onesided && !op.Inverse && parts == 2 {
		return fail.Errorf("input has shape %v, want a last dimension of 1 for a one-sided transform", s)
	}
	n := s[axis]
	if op.Inverse && op.Onesided {
		n = 2 * max(0, n-1)
	}
	if c.Has(1) {
		if n, err = kit.ScalarInt(c.Tensor(1), "dft_length"); err != nil {
			return err
		}
		if n < 0 {
			return fail.Errorf("dft_length must be non-negative, got %d", n)
		}
	}
	shape := append([]int{}, s...)
	shape[axis], shape[rank-1] = n, 2
	if op.Onesided {
		if op.Inverse {
			shape[rank-1] = 1
		} else {
			shape[axis] = n/2 + 1
		}
	}
	line := fourier.Line{N: n, In: s[axis], InParts: parts, Out: shape[axis], OutParts: shape[rank-1],
		Inner: kit.Product(s[axis+1 : rank-1]), Inverse: op.Inverse, Hermitian: op.Inverse && op.Onesided}
	outer := kit.Product(s[:axis])
	if x.DType() == tensor.TypeFloat64 {
		return fourier.DFT[float64](c, line, outer, shape)
	}
	return fourier.DFT[float32](c, line, outer, shape)
}
