package ops

import (
	"fmt"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// DFT is the discrete Fourier transform along one axis. The last dimension of
// the input is 1 (real) or 2 (real and imaginary part). With Onesided the
// forward transform of a real signal keeps the first ⌊n/2⌋+1 frequencies, and
// the inverse one makes a real signal from these. The signal is cut or filled up
// with zeros to dft_length
// (https://onnx.ai/onnx/operators/onnx__DFT.html).
type DFT struct{ Inverse, Onesided bool }

var _ = register(Def{Name: "DFT", Since: []int{17, 20}, In: "input:T1, dft_length:T2?, axis:int64?", Out: "output:T1",
	Types: Types{"T1": "@float", "T2": "int32 int64"}, Build: simple(func(a *Attrs, opset int) Operator {
		if opset < 20 {
			a.SetInput(2, tensor.Scalar(int64(a.Int("axis", 1))))
		}
		return &DFT{a.Bool("inverse", false), a.Bool("onesided", false)}
	})})

// dftAxis checks an axis: all but the last dimension are allowed.
func dftAxis(axis, rank int) (int, error) {
	if rank < 2 {
		return 0, fmt.Errorf("input has rank %d, want at least 2", rank)
	}
	n, err := normalAxis(axis, rank)
	if err == nil && n == rank-1 {
		err = fmt.Errorf("axis %d is the last dimension, which holds real and imaginary parts", axis)
	}
	return n, err
}

// Infer sets the length along the axis and the number of parts.
func (op *DFT) Infer(c *ir.InferContext) error {
	s := c.Shape(0)
	out := ir.UnrankedTensor(c.Elem(0))
	if s == nil {
		c.SetOut(0, out)
		return nil
	}
	rank := len(s)
	if rank < 2 {
		return fmt.Errorf("input has rank %d, want at least 2", rank)
	}
	out.Shape = append([]ir.Dim{}, s...)
	out.Shape[rank-1] = ir.Known(2)
	if op.Inverse && op.Onesided {
		out.Shape[rank-1] = ir.Known(1)
	}
	axis, known := rank-2, !c.Has(2)
	if t := c.Const(2); t != nil {
		v, err := scalarInt(t, "axis")
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

// Run transforms line by line, in double.
func (op *DFT) Run(c *ir.Call) error {
	x := c.Tensor(0)
	s, rank := x.Shape(), x.Rank()
	axis := -2
	var err error
	if c.Has(2) {
		if axis, err = scalarInt(c.Tensor(2), "axis"); err != nil {
			return err
		}
	}
	if axis, err = dftAxis(axis, rank); err != nil {
		return err
	}
	parts := s[rank-1]
	if parts != 1 && parts != 2 {
		return fmt.Errorf("input has shape %v, want a last dimension of 1 or 2", s)
	}
	if op.Onesided && !op.Inverse && parts == 2 {
		return fmt.Errorf("input has shape %v: a one-sided transform wants a real signal, with a last dimension of 1", s)
	}
	n := s[axis]
	if op.Inverse && op.Onesided {
		n = 2 * max(0, n-1)
	}
	if c.Has(1) {
		if n, err = scalarInt(c.Tensor(1), "dft_length"); err != nil {
			return err
		}
		if n < 0 {
			return fmt.Errorf("dft_length is %d", n)
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
	line := fourierLine{n: n, in: s[axis], inParts: parts, out: shape[axis], outParts: shape[rank-1],
		inner: product(s[axis+1 : rank-1]), inverse: op.Inverse, hermitian: op.Inverse && op.Onesided}
	outer := product(s[:axis])
	if x.DType() == tensor.TypeFloat64 {
		return runDFT[float64](c, line, outer, shape)
	}
	return runDFT[float32](c, line, outer, shape)
}

// fourierLine says how lines of a tensor are read and written.
type fourierLine struct {
	n                  int // length of the transform
	in, out            int // elements along the axis
	inParts, outParts  int
	inner              int // product of the dimensions between the axis and the parts
	inverse, hermitian bool
}

func runDFT[T realFloat](c *ir.Call, l fourierLine, outer int, shape []int) error {
	y, err := realOut[T](c, 0, c.Tensor(0).DType(), shape...)
	if err != nil {
		return err
	}
	x, err := realIn[T](c, c.Tensor(0))
	if err != nil {
		return err
	}
	if l.n == 0 {
		clear(y.data)
		y.store()
		return nil
	}
	lines := outer * l.inner
	if len(y.data) == 0 || lines == 0 {
		return nil
	}
	if err := c.Reserve(fourierBytes(l.n)); err != nil {
		return err
	}
	p := newFourierPlan(l.n)
	per := 2*l.n + p.scratchLen()
	scratch, err := ir.ScratchOf[complex128](c, slotCount(lines)*per)
	if err != nil {
		return err
	}
	err = inSlots(c, lines, func(slot, i int) error {
		buf := scratch[slot*per:][:per]
		src, dst, rest := buf[:l.n], buf[l.n:2*l.n], buf[2*l.n:]
		o, k := i/l.inner, i%l.inner
		at := func(t, length, parts int) int { return ((o*length+t)*l.inner + k) * parts }
		used := min(l.in, l.n)
		if l.hermitian {
			used = min(l.in, l.n/2+1)
		}
		for t := range used {
			q := at(t, l.in, l.inParts)
			im := T(0)
			if l.inParts == 2 {
				im = x[q+1]
			}
			src[t] = complex(float64(x[q]), float64(im))
		}
		clear(src[used:])
		if l.hermitian {
			// The other half is the mirror image; the imaginary parts of the
			// frequencies that are their own mirror image have no meaning.
			src[0] = complex(real(src[0]), 0)
			if l.n%2 == 0 {
				src[l.n/2] = complex(real(src[l.n/2]), 0)
			}
			for t := l.n/2 + 1; t < l.n; t++ {
				src[t] = conj(src[l.n-t])
			}
		}
		if l.inverse {
			p.inverse(dst, src, rest)
		} else {
			p.forward(dst, src, rest)
		}
		for t := range l.out {
			q := at(t, l.out, l.outParts)
			y.data[q] = T(real(dst[t]))
			if l.outParts == 2 {
				y.data[q+1] = T(imag(dst[t]))
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	y.store()
	return nil
}
