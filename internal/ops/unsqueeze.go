package ops

import (
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/tensor"
)

// Unsqueeze inserts dimensions of size 1 at the given axes of the output
// (https://onnx.ai/onnx/operators/onnx__Unsqueeze.html).
type Unsqueeze struct{}

var _ = kit.Register(&kit.Def{Name: "Unsqueeze", Since: kit.Versions{1, 11, 13, 21, 23, 24, 25},
	In: "data:T, axes:int64", Out: "expanded:T", Types: "T: @all",
	Selects: kit.Always, Build: func(a *kit.Attrs, opset int) kit.Operator {
		if opset < 13 {
			a.Require("axes")
			a.SetInputInts(1, a.Ints("axes"))
		}
		return &Unsqueeze{}
	},
	Gradient: gradient.Reshape})

// ViewOf implements ir.View.
func (op *Unsqueeze) ViewOf() int { return 0 }

// unsqueezed returns shape with ones inserted at axes.
func unsqueezed[D any](shape []D, axes []int, one D) ([]D, error) {
	rank := len(shape) + len(axes)
	if rank > tensor.MaxRank {
		return nil, fail.Errorf("output has rank %d, want at most %d", rank, tensor.MaxRank)
	}
	axes, err := kit.NormalAxes(axes, rank)
	if err != nil {
		return nil, err
	}
	out := make([]D, 0, rank)
	for i := range rank {
		if slices.Contains(axes, i) {
			out = append(out, one)
		} else {
			out = append(out, shape[0])
			shape = shape[1:]
		}
	}
	return out, nil
}

// Infer implements ir.Operator.
func (op *Unsqueeze) Infer(c *ir.InferContext) error {
	if err := kit.CheckSmall(c, 1, "axes"); err != nil {
		return err
	}
	in := c.Shape(0)
	kit.SetShape(c, 0, c.Elem(0), nil)
	if in == nil {
		return nil
	}
	axes, ok := kit.KnownInts(c, 1)
	if !ok {
		if a := c.Contents(1); a != nil {
			kit.SetShape(c, 0, c.Elem(0), ir.UnknownDims(len(in)+len(a)))
		}
		return nil
	}
	out, err := unsqueezed(in, axes, ir.Known(1))
	if err != nil {
		return err
	}
	kit.SetShape(c, 0, c.Elem(0), out)
	kit.KeepContents(c, out)
	return nil
}

// Run implements ir.Operator.
func (op *Unsqueeze) Run(c *ir.Call) error {
	data := c.Tensor(0)
	axes, err := kit.SmallInts(c.Tensor(1), "axes")
	if err != nil {
		return err
	}
	shape, err := unsqueezed(data.Shape(), axes, 1)
	if err != nil {
		return err
	}
	out, err := data.Reshape(shape...)
	if err != nil {
		return err
	}
	c.Set(0, out)
	return nil
}
