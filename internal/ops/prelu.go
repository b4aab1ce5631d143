package ops

import (
	"math"
	"slices"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/tensor"
)

// PRelu returns slope·x if x < 0, otherwise x. slope broadcasts to the shape of X
// (https://onnx.ai/onnx/operators/onnx__PRelu.html).
type PRelu struct {
	// Channels means that a slope of rank 1 applies to dimension 1 of X, as before opset 7.
	Channels bool
}

var _ = kit.Register(&kit.Def{Name: "PRelu", Since: kit.Versions{1, 6, 7, 9, 16}, In: "X:T, slope:T", Out: "Y:T",
	Class:       kit.ClassActivation,
	Types:       "T: @float uint32 uint64 int32 int64",
	Elementwise: true, Build: func(a *kit.Attrs, opset int) kit.Operator {
		kit.IgnoreConsumed(a, opset)
		return &PRelu{Channels: opset < 7}
	},
	Gradient: gradient.Decomposition(func(b *gradient.Builder, n *gradient.Node) (string, error) {
		if err := b.Need(7); err != nil {
			return "", err
		}
		return b.Op("Add", b.Op("Relu", n.Inputs[0]), b.Op("Mul", n.Input(1), b.Negative(n.Inputs[0]))), nil
	})})

var preluLoops = elementwise.LoopsOf(elementwise.Loop2(preluLoop[uint32]), elementwise.Loop2(preluLoop[uint64]),
	elementwise.Loop2(preluLoop[int32]), elementwise.Loop2(preluLoop[int64]),
	elementwise.WithBinary(elementwise.Loop2(preluLoop[float32]), preluSlopes, vec.LeakyReluF32,
		func(_ cpu.Level, dst, slopes []float32, x float32) {
			for i, s := range slopes[:len(dst)] {
				if dst[i] = x; x < 0 {
					dst[i] *= s
				}
			}
		}), elementwise.Loop2(preluLoop[float64]))

// Infer implements [ir.Operator].
func (*PRelu) Infer(c *ir.InferContext) error { return kit.SameAsInput(c) }

// Run implements [ir.Operator].
func (o *PRelu) Run(c *ir.Call) error {
	x, slope := c.Tensor(0), c.Tensor(1)
	shape := slope.Shape()
	if o.Channels && len(shape) == 1 && x.Rank() > 1 {
		perChannel := make([]int, x.Rank()-1)
		for i := range perChannel {
			perChannel[i] = 1
		}
		perChannel[0] = shape[0]
		shape = perChannel
	}
	out, err := kit.BroadcastShapes(x.Shape(), shape)
	if err != nil {
		return err
	}
	if !slices.Equal(out, x.Shape()) {
		return fail.Errorf("slope of shape %v does not broadcast to the input's shape %v", slope.Shape(), x.Shape())
	}
	l, err := preluLoops.Loop(x.DType())
	if err != nil {
		return err
	}
	return elementwise.RunLoop(c, l, kit.GrainCheap, out, []*tensor.Tensor{x, slope}, [][]int{x.Shape(), shape})
}

// preluSlopes is preluLoop without branches, which random signs make hard to predict.
func preluSlopes(_ cpu.Level, dst, x, slopes []float32) {
	x, slopes = x[:len(dst)], slopes[:len(dst)]
	const one = 0x3f800000
	for i := range dst {
		bits := math.Float32bits(x[i])
		negative := uint32(int32(bits&(bits-1)) >> 31) // all ones below 0, but zeros for -0
		dst[i] = x[i] * math.Float32frombits(math.Float32bits(slopes[i])&negative|one&^negative)
	}
}

func preluLoop[T kit.RealNumber](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		x := a[i]
		if x < 0 {
			x *= b[i]
		}
		dst[i] = x
	}
}
