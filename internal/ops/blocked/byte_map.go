package blocked

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// ByteMap maps int8 or uint8 elements by a lookup table. Optimize replaces elementwise operators
// between a DequantizeLinear and a QuantizeLinear by it.
type ByteMap struct {
	Table [256]byte
	Elem  tensor.DType // element type of the output, int8 or uint8
}

// Infer keeps the shape.
func (m *ByteMap) Infer(c *ir.InferContext) error {
	kit.SetShape(c, 0, m.Elem, c.Shape(0))
	return nil
}

// Run implements [ir.Operator].
func (m *ByteMap) Run(c *ir.Call) error {
	x := c.Tensor(0)
	y, err := c.Output(0, m.Elem, x.Shape()...)
	if err != nil {
		return err
	}
	src, dst := x.Bytes(), y.Bytes()
	c.Parallel(len(src), kit.GrainCheap, func(lo, hi int) { kit.MapBytes(dst[lo:hi], src[lo:hi], &m.Table) })
	return nil
}
