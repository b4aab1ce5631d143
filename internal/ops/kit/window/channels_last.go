package window

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/move"
	"github.com/onward-ml/onward/tensor"
)

// Operators of com.microsoft also exist for layouts with channels last. They transpose to the
// layout of ai.onnx, compute, and transpose the result.

// ChannelsFirstShape moves the last dimension to index 1.
func ChannelsFirstShape[D any](s []D) []D {
	if len(s) < 2 {
		return s
	}
	return append([]D{s[0], s[len(s)-1]}, s[1:len(s)-1]...)
}

// ChannelsLastShape moves dimension 1 to the end.
func ChannelsLastShape[D any](s []D) []D {
	if len(s) < 2 {
		return s
	}
	return append(append([]D{s[0]}, s[2:]...), s[1])
}

// MoveChannels copies between the layouts. shape is the shape with channels first.
func MoveChannels(c *ir.Call, dst, src move.Buf, shape []int, toLast bool) {
	n, ch, plane := shape[0], shape[1], kit.Product(shape[2:])
	first, last := []int{ch * plane, plane, 1}, []int{ch * plane, 1, ch}
	if toLast {
		move.Strided(c, dst, src, []int{n, ch, plane}, last, 0, first, 0)
	} else {
		move.Strided(c, dst, src, []int{n, ch, plane}, first, 0, last, 0)
	}
}

// ChannelsFirst returns t with the last dimension moved to index 1, in scratch memory.
func ChannelsFirst(c *ir.Call, t *tensor.Tensor) (*tensor.Tensor, error) {
	if t.Rank() < 2 {
		return nil, fail.Errorf("input has shape %v, want rank at least 2", t.Shape())
	}
	r, err := kit.ScratchTensor(c, t.DType(), ChannelsFirstShape(t.Shape()))
	if err != nil {
		return nil, err
	}
	src, err := move.In(c, t)
	if err != nil {
		return nil, err
	}
	dst, err := move.Into(c, r)
	if err != nil {
		return nil, err
	}
	MoveChannels(c, dst, src, r.Shape(), false)
	return r, nil
}

// ChannelsOutput allocates output i for a result with channels first. If last is set, the result is
// in scratch memory, and done transposes it to the output.
func ChannelsOutput(c *ir.Call, i int, d tensor.DType, shape []int,
	last bool) (t *tensor.Tensor, done func(), err error) {
	if !last {
		t, err = c.Output(i, d, shape...)
		return t, func() {}, err
	}
	y, err := c.Output(i, d, ChannelsLastShape(shape)...)
	if err != nil {
		return nil, nil, err
	}
	if t, err = kit.ScratchTensor(c, d, shape); err != nil {
		return nil, nil, err
	}
	return t, func() {
		width := move.Width(d)
		MoveChannels(c, move.Buf{Width: width, Raw: y.Bytes()}, move.Buf{Width: width, Raw: t.Bytes()}, shape, true)
	}, nil
}

// InferConvLast is InferConv for inputs and outputs with channels last.
func InferConvLast(c *ir.InferContext, w *Window, group, ix, iw int, out ir.Type) error {
	d, err := convDims(w, group, ChannelsFirstShape(c.Shape(ix)), c.Shape(iw))
	out.Shape = ChannelsLastShape(d)
	c.SetOut(0, out)
	return err
}

// InferPoolLast is InferPool for inputs and outputs with channels last.
func InferPoolLast(c *ir.InferContext, w *Window, out ir.Type) error {
	var err error
	if in := c.Shape(0); in != nil {
		if len(in) < 3 {
			c.SetOut(0, out)
			return fail.Errorf("input has rank %d, want at least 3", len(in))
		}
		var sp []ir.Dim
		if sp, err = w.outDims(in[1:len(in)-1], ir.Dims(w.Kernel)); err == nil {
			out.Shape = append(append([]ir.Dim{in[0]}, sp...), in[len(in)-1])
		}
	}
	c.SetOut(0, out)
	return err
}
