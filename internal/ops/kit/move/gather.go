package move

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// GatherAxis writes output 0: the slices of x at the given indices of an axis, whose dimension is
// replaced by shape.
func GatherAxis(c *ir.Call, x *tensor.Tensor, axis int, at []int, shape []int) error {
	out := append(c.Ints(x.Rank() + len(shape))[:0], x.Shape()[:axis]...)
	out = append(out, shape...)
	out = append(out, x.Shape()[axis+1:]...)
	dst, err := Out(c, 0, x.DType(), out...)
	if err != nil {
		return err
	}
	src, err := In(c, x)
	if err != nil {
		return err
	}
	outer, inner := AxisBlocks(x.Shape(), axis)
	Gather(c, dst, src, outer, x.Dim(axis)*inner, at, inner)
	dst.Done()
	return nil
}
