package ops

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// widenBranch is ir.Widen, except that an unknown type is ignored.
func widenBranch(a, b ir.Type) (ir.Type, error) {
	switch {
	case !a.Known():
		return b, nil
	case !b.Known():
		return a, nil
	}
	return ir.Widen(a, b)
}

// oneBool returns the only element of a bool tensor.
func oneBool(t *tensor.Tensor, what string) (bool, error) {
	if t == nil || t.DType() != tensor.TypeBool || t.Len() != 1 {
		return false, fail.Errorf("%s is %s, want one bool", what, t)
	}
	return tensor.MustData[bool](t)[0], nil
}
