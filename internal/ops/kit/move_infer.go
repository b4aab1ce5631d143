package kit

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// KnownInts returns the contents of input i if all elements are known.
func KnownInts(c *ir.InferContext, i int) ([]int, bool) { return ir.Ints(c.Contents(i)) }

// SetShape sets the type of output i: elem with the given shape, or of unknown rank if it is nil.
// Inlined at the calls of all operators, it takes 12 kB.
//
//go:noinline
func SetShape(c *ir.InferContext, i int, elem tensor.DType, shape []ir.Dim) {
	c.SetOut(i, ir.Type{Kind: tensor.KindTensor, Elem: elem, Shape: shape})
}

// KeepContents copies the known contents of input 0 to output 0, for an operator that reshapes an
// integer scalar or vector.
func KeepContents(c *ir.InferContext, out []ir.Dim) {
	if out != nil && len(out) <= 1 {
		if d := c.Contents(0); d != nil {
			c.SetContents(0, d)
		}
	}
}

// SmallInts returns an input with one integer per dimension, such as axes, pads or a shape; nil if
// it is omitted.
func SmallInts(t *tensor.Tensor, what string) ([]int, error) {
	if t == nil {
		return nil, nil
	}
	if t.Rank() > 1 {
		return nil, fail.Errorf("%s has shape %v, want one dimension", what, t.Shape())
	}
	if t.Len() > 2*tensor.MaxRank {
		return nil, fail.Errorf("%s has %d elements, want at most %d", what, t.Len(), 2*tensor.MaxRank)
	}
	return Ints(t), nil
}

// CheckSmall makes the checks of smallInts during inference.
func CheckSmall(c *ir.InferContext, i int, what string) error {
	if s := c.Shape(i); len(s) > 1 {
		return fail.Errorf("%s has shape %v, want one dimension", what, s)
	}
	return nil
}

// JoinContents keeps the elements on which two versions of an integer vector agree.
func JoinContents(a, b []ir.Dim) []ir.Dim {
	if a == nil || len(a) != len(b) {
		return nil
	}
	r := make([]ir.Dim, len(a))
	for i := range a {
		if a[i].Same(b[i]) {
			r[i] = a[i]
		}
	}
	return r
}

// BinaryContents applies fn to the elements of two shape values and broadcasts a single element. It
// returns nil unless their lengths are known to match.
func BinaryContents(a, b []ir.Dim, fn func(a, b ir.Dim) ir.Dim) []ir.Dim {
	if a == nil || b == nil || len(a) != len(b) && len(a) != 1 && len(b) != 1 {
		return nil
	}
	n := max(len(a), len(b))
	if len(a) == 0 || len(b) == 0 {
		n = 0
	}
	r := make([]ir.Dim, n)
	for i := range r {
		r[i] = fn(a[min(i, len(a)-1)], b[min(i, len(b)-1)])
	}
	return r
}

// SetContents records the elements of output 0, if any is known. Numbers beyond int32 wrap at run
// time and are unknown here.
func SetContents(c *ir.InferContext, elem tensor.DType, d []ir.Dim) {
	known := false
	for i, e := range d {
		if n, ok := e.Value(); ok && elem == tensor.TypeInt32 && int(int32(n)) != n {
			d[i] = ir.Unknown
		}
		known = known || !d[i].IsUnknown()
	}
	if known {
		c.SetContents(0, d)
	}
}
