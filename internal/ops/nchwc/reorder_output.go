package nchwc

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// ReorderOutput returns the first Channels channels of N×C×H×W images, as N×H×W×C if ChannelsLast
// is set, see the package documentation.
type ReorderOutput struct {
	Channels     int
	ChannelsLast bool
}

var _ = kit.Register(&kit.Def{Domain: kit.DomainNchwc, Name: "ReorderOutput", Since: kit.Versions{1}, In: "X:T",
	Out: "Y:T", Types: "T: float",
	Class: kit.ClassShape,
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		op := &ReorderOutput{a.Int("channels", 0), a.Bool("channels_last", false)}
		if op.Channels < 1 || int64(op.Channels) > 1<<40 {
			a.Errorf("channels is %d, want 1 or more", op.Channels)
		}
		return op
	}})

// Infer sets the number of channels.
func (op *ReorderOutput) Infer(c *ir.InferContext) error {
	if err := kit.CheckRank(c, 0, 4, "X"); err != nil {
		return err
	}
	dims := ir.UnknownDims(4)
	if s := c.Shape(0); s != nil {
		copy(dims, s)
	}
	dims[1] = ir.Known(op.Channels)
	if op.ChannelsLast {
		dims = []ir.Dim{dims[0], dims[2], dims[3], dims[1]}
	}
	c.SetOut(0, ir.TensorType(c.Elem(0), dims...))
	return nil
}

// Run copies the channels.
func (op *ReorderOutput) Run(c *ir.Call) error {
	x := c.Tensor(0)
	if x.Rank() != 4 || x.Dim(1) < op.Channels {
		return fail.Errorf("X has shape %v, want [N C H W] with %d channels or more", x.Shape(), op.Channels)
	}
	n, padded, h, w := x.Dim(0), x.Dim(1), x.Dim(2), x.Dim(3)
	shape := []int{n, op.Channels, h, w}
	if op.ChannelsLast {
		shape = []int{n, h, w, op.Channels}
	}
	y, err := c.Output(0, x.DType(), shape...)
	if err != nil {
		return err
	}
	src, dst, size := tensor.MustData[float32](x), tensor.MustData[float32](y), h*w
	if !op.ChannelsLast {
		c.Parallel(n*op.Channels, kit.GrainFor(size), func(lo, hi int) {
			for i := lo; i < hi; i++ {
				copy(dst[i*size:][:size], src[(i/op.Channels*padded+i%op.Channels)*size:])
			}
		})
		return nil
	}
	c.Parallel(n*size, kit.GrainFor(op.Channels), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			from := src[i/size*padded*size+i%size:]
			for ch := range op.Channels {
				dst[i*op.Channels+ch] = from[ch*size]
			}
		}
	})
	return nil
}
