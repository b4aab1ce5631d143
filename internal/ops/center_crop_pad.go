package ops

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/internal/ops/kit/move"
)

// CenterCropPad crops dimensions that are too large around their center, and pads those that are
// too small with zeros on both sides. An odd difference affects the end more
// (https://onnx.ai/onnx/operators/onnx__CenterCropPad.html).
type CenterCropPad struct {
	Axes []int // nil: all
}

var _ = kit.Register(&kit.Def{Name: "CenterCropPad", Since: kit.Versions{18},
	In: "input_data:T, shape:I", Out: "output_data:T", Types: "T: " + move.Types + "; I: int32 int64",
	Build:    func(a *kit.Attrs, opset int) kit.Operator { return &CenterCropPad{Axes: a.Ints("axes")} },
	Gradient: gradient.Move})

// centerCropTarget returns the shape in with the sizes want for the axes.
func centerCropTarget[D any](in, want []D, axes []int) ([]D, error) {
	out := append([]D{}, in...)
	at, err := sliceAxes(axes, len(want), len(in))
	if err != nil {
		return nil, err
	}
	if axes == nil && len(want) != len(in) {
		return nil, fail.Errorf("shape has %d elements, but the input has rank %d", len(want), len(in))
	}
	for i, a := range at {
		out[a] = want[i]
	}
	return out, nil
}

// Infer implements ir.Operator.
func (op *CenterCropPad) Infer(c *ir.InferContext) error {
	if err := kit.CheckRank(c, 1, 1, "shape"); err != nil {
		return err
	}
	in, want := c.Shape(0), c.Contents(1)
	kit.SetShape(c, 0, c.Elem(0), nil)
	if in == nil {
		return nil
	}
	if want == nil {
		kit.SetShape(c, 0, c.Elem(0), ir.UnknownDims(len(in)))
		return nil
	}
	for i, d := range want {
		if n, ok := d.Value(); ok && n < 0 {
			return kit.NegativeDim(i, n)
		}
	}
	out, err := centerCropTarget(in, want, op.Axes)
	if err != nil {
		return err
	}
	kit.SetShape(c, 0, c.Elem(0), out)
	return nil
}

// Run implements ir.Operator.
func (op *CenterCropPad) Run(c *ir.Call) error {
	x := c.Tensor(0)
	want, err := kit.SmallInts(c.Tensor(1), "shape")
	if err != nil {
		return err
	}
	shape, err := centerCropTarget(x.Shape(), want, op.Axes)
	if err != nil {
		return err
	}
	dst, err := move.Out(c, 0, x.DType(), shape...)
	if err != nil {
		return err
	}
	src, err := move.In(c, x)
	if err != nil {
		return err
	}
	shift := make([]int, len(shape))
	for i, n := range shape {
		if d := x.Dim(i); d > n {
			shift[i] = -((d - n) / 2)
		} else {
			shift[i] = (n - d) / 2
		}
	}
	move.Clear(c, dst)
	move.Centered(c, dst, src, shape, x.Shape(), shift)
	dst.Done()
	return nil
}
