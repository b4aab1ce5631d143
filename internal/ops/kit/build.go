package kit

import (
	"github.com/onward-ml/onward/internal/ir"
)

// SameTypeAndShape infers an output of the type and shape of input 0.
type SameTypeAndShape struct{}

// Infer sets output 0 to the type and shape of input 0.
func (SameTypeAndShape) Infer(c *ir.InferContext) error { return SameAsInput(c) }

// IgnoreConsumed ignores the attribute of opset 1 that lists inputs that may be overwritten.
//
//go:noinline
func IgnoreConsumed(a *Attrs, opset int) {
	if opset < 6 {
		a.Ignore("consumed_inputs")
	}
}

// WithoutAttrs is the Build function of an operator without attributes.
func WithoutAttrs[T any, P interface {
	*T
	Operator
}](a *Attrs, opset int) Operator {
	IgnoreConsumed(a, opset)
	return P(new(T))
}
