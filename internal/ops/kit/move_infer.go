package kit

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// Lists of element types of operators that move elements.
const (
	MoveTypes          = "@number @complex bool string"
	moveTypesNoBFloat  = "@int float16 float double @complex bool string"
	moveSeqTypes       = "seq(@all)"
	MoveAnyTensorOrSeq = "@all seq(@all)"
)

// KnownInts returns the contents of input i if all elements are known.
func KnownInts(c *ir.InferContext, i int) ([]int, bool) { return ir.Ints(c.Contents(i)) }

// SetShape sets the type of output i: elem with the given shape, or of unknown rank if it is nil. Inlined at the calls of all
// operators, it takes 12 kB.
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
