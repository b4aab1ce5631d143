package ops

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/quant"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/window"
)

// MoveChannels moves the channels of images of 8-bit integers: from N×C×H×W to N×H×W×C if ToLast is
// set, else back. Optimize makes it at the borders of regions of quantized convolutions.
type MoveChannels struct{ ToLast bool }

// Infer permutes the dimensions.
func (m *MoveChannels) Infer(c *ir.InferContext) error {
	s := c.Shape(0)
	if m.ToLast {
		s = window.ChannelsLastShape(s)
	} else {
		s = window.ChannelsFirstShape(s)
	}
	kit.SetShape(c, 0, c.Elem(0), s)
	return nil
}

// Run transposes each image.
func (m *MoveChannels) Run(c *ir.Call) error {
	x := c.Tensor(0)
	shape := x.Shape()
	if m.ToLast {
		shape = window.ChannelsLastShape(shape)
	} else {
		shape = window.ChannelsFirstShape(shape)
	}
	y, err := c.Output(0, x.DType(), shape...)
	if err != nil || y.Len() == 0 {
		return err
	}
	rows := x.Dim(1) // of the matrix of an image
	if !m.ToLast {
		rows = x.Dim(1) * x.Dim(2)
	}
	size := x.Len() / x.Dim(0)
	cols := size / rows
	src, dst := x.Bytes(), y.Bytes()
	const step = 64
	parts := (cols + step - 1) / step
	c.Parallel(x.Dim(0)*parts, kit.GrainFor(step*rows), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			n, j := i/parts, i%parts*step
			quant.TransposeBytes(cpu.Active(), dst[n*size+j*rows:], rows, src[n*size+j:], cols, rows, min(step, cols-j))
		}
	})
	return c.Err()
}
