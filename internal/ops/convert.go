package ops

import (
	"fmt"
	"sync/atomic"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// convertInto converts the elements of src to the type of dst on all threads.
func convertInto(c *ir.Call, dst, src *tensor.Tensor, opts tensor.ConvertOptions) error {
	n := src.Len()
	if f := castOf(c, dst.DType(), src.DType()); f != nil {
		y, x := dst.Bytes(), src.Bytes()
		to, from := dst.DType().Bits()/8, src.DType().Bits()/8
		return eachRange(c, n, grainVector, func(lo, hi int) { f(y[lo*to:hi*to], x[lo*from:hi*from]) })
	}
	if src.DType() == tensor.TypeString || dst.DType() == tensor.TypeString || n <= grainCheap {
		if dst.DType() == tensor.TypeString {
			const longest = 32 // bytes of a number as text
			if err := c.Reserve(int64(n) * longest); err != nil {
				return err
			}
		}
		return tensor.ConvertInto(dst, src, opts)
	}
	// Ranges begin at multiples of 8 elements, where packed types have whole bytes.
	const unit = 8
	part := func(t *tensor.Tensor, lo, hi int) *tensor.Tensor {
		bits := t.DType().Bits()
		var r tensor.Tensor
		r.Reset(t.DType(), t.Bytes()[lo*bits/8:(hi*bits+7)/8], []int{hi - lo})
		return &r
	}
	var failed firstError
	err := eachRange(c, (n+unit-1)/unit, grainCheap/unit, func(lo, hi int) {
		lo, hi = lo*unit, min(n, hi*unit)
		failed.set(tensor.ConvertInto(part(dst, lo, hi), part(src, lo, hi), opts))
	})
	if err != nil {
		return err
	}
	return failed.get()
}

// castOf returns the vector kernel between two types, nil if there is none or the call asks for plain ones.
func castOf(c *ir.Call, to, from tensor.DType) castKernel {
	if c.Generic {
		return nil
	}
	return castKernels[castPair{from, to}]
}

func isHalf(d tensor.DType) bool { return d == tensor.TypeFloat16 || d == tensor.TypeBFloat16 }

// toScratch converts t to another type in scratch memory.
func toScratch(c *ir.Call, t *tensor.Tensor, d tensor.DType) (*tensor.Tensor, error) {
	if t.DType() == d {
		return t, nil
	}
	r, err := scratchTensor(c, d, t.Shape())
	if err != nil {
		return nil, err
	}
	return r, convertInto(c, r, t, tensor.ConvertOptions{})
}

// scratchTensor returns a tensor with undefined contents that is valid until the
// call ends.
func scratchTensor(c *ir.Call, d tensor.DType, shape []int) (*tensor.Tensor, error) {
	n, err := tensor.ByteLen(d, shape)
	if err != nil {
		return nil, err
	}
	if d == tensor.TypeString {
		return nil, fmt.Errorf("strings have no scratch memory")
	}
	b, err := c.Scratch(n)
	if err != nil {
		return nil, err
	}
	var t tensor.Tensor
	t.Reset(d, b, shape)
	return &t, nil
}

// firstError keeps one of the errors of parallel ranges.
type firstError struct{ err atomic.Pointer[error] }

func (f *firstError) set(err error) {
	if err != nil {
		f.err.CompareAndSwap(nil, &err)
	}
}

func (f *firstError) get() error {
	if p := f.err.Load(); p != nil {
		return *p
	}
	return nil
}
