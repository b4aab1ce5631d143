package blocked

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// ChannelShuffle deals the channels of an N×C×… tensor of float out of Groups
// groups: output channel i is input channel i mod Groups · C/Groups + ⌊i/Groups⌋
// (Zhang et al., ShuffleNet, 2017).
type ChannelShuffle struct{ Groups int }

func (s *ChannelShuffle) source(i, c int) int { return i%s.Groups*(c/s.Groups) + i/s.Groups }

// Order returns for each of c output channels which input channel it is.
func (s *ChannelShuffle) Order(c int) []int {
	r := make([]int, c)
	for i := range r {
		r[i] = s.source(i, c)
	}
	return r
}

// Infer keeps the shape.
func (s *ChannelShuffle) Infer(c *ir.InferContext) error { return kit.SameAsInput(c) }

// Run copies planes in parallel.
func (s *ChannelShuffle) Run(c *ir.Call) error {
	x := c.Tensor(0)
	if x.Rank() < 2 || x.Dim(1)%s.Groups != 0 {
		return fail.Errorf("input has shape %v, want channels divisible by %d", x.Shape(), s.Groups)
	}
	y, err := c.Output(0, x.DType(), x.Shape()...)
	if err != nil || x.Len() == 0 {
		return err
	}
	src, dst, ch := tensor.MustData[float32](x), tensor.MustData[float32](y), x.Dim(1)
	size := x.Len() / (x.Dim(0) * ch)
	c.Parallel(x.Dim(0)*ch, 1+(1<<14)/size, func(lo, hi int) {
		for p := lo; p < hi; p++ {
			copy(dst[p*size:][:size], src[(p/ch*ch+s.source(p%ch, ch))*size:])
		}
	})
	return nil
}
