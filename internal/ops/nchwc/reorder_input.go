package nchwc

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// ReorderInput zero-pads the channels of N×C×H×W images, or N×H×W×C with ChannelsLast, to a
// multiple of Block, and returns them as N×C×H×W, see the package documentation.
type ReorderInput struct {
	Block        int
	ChannelsLast bool
}

var _ = kit.Register(&kit.Def{Domain: kit.DomainNchwc, Name: "ReorderInput", Since: kit.Versions{1}, In: "X:T",
	Out: "Y:T", Types: "T: float",
	Class: kit.ClassShape,
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &ReorderInput{readBlock(a), a.Bool("channels_last", false)}
	}})

// Infer rounds the number of channels up.
func (op *ReorderInput) Infer(c *ir.InferContext) error {
	if err := kit.CheckRank(c, 0, 4, "X"); err != nil {
		return err
	}
	dims := ir.UnknownDims(4)
	if s := c.Shape(0); s != nil {
		copy(dims, s)
		if op.ChannelsLast {
			dims = []ir.Dim{s[0], s[3], s[1], s[2]}
		}
		n, ok := dims[1].Value()
		dims[1] = ir.Unknown
		if ok {
			dims[1] = ir.Known((n + op.Block - 1) / op.Block * op.Block)
		}
	}
	c.SetOut(0, ir.TensorType(c.Elem(0), dims...))
	return nil
}

// Run copies the channels.
func (op *ReorderInput) Run(c *ir.Call) error {
	x := c.Tensor(0)
	if x.Rank() != 4 {
		return fail.Errorf("X has shape %v, want rank 4", x.Shape())
	}
	n, channels, h, w := x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3)
	if op.ChannelsLast {
		channels, h, w = x.Dim(3), x.Dim(1), x.Dim(2)
	}
	padded := (channels + op.Block - 1) / op.Block * op.Block
	y, err := c.Output(0, x.DType(), n, padded, h, w)
	if err != nil {
		return err
	}
	src, dst, size := tensor.MustData[float32](x), tensor.MustData[float32](y), h*w
	c.Parallel(n*padded, kit.GrainFor(size), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			b, ch, to := i/padded, i%padded, dst[i*size:][:size]
			switch {
			case ch >= channels:
				clear(to)
			case op.ChannelsLast:
				for k := range to {
					to[k] = src[(b*size+k)*channels+ch]
				}
			default:
				copy(to, src[(b*channels+ch)*size:])
			}
		}
	})
	return nil
}
