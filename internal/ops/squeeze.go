package ops

import (
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
)

// Squeeze removes dimensions of size 1: those of input axes, which may repeat, or all of them
// (https://onnx.ai/onnx/operators/onnx__Squeeze.html).
type Squeeze struct{}

var _ = kit.Register(&kit.Def{Name: "Squeeze", Since: kit.Versions{1, 11, 13, 21, 23, 24, 25},
	In: "data:T, axes:int64?", Out: "squeezed:T", Types: "T: @all",
	Selects: kit.Always, Build: func(a *kit.Attrs, opset int) kit.Operator {
		if opset < 13 {
			a.SetInputInts(1, a.Ints("axes"))
		}
		return &Squeeze{}
	},
	Gradient: gradient.Reshape})

// ViewOf implements ir.View.
func (op *Squeeze) ViewOf() int { return 0 }

// Infer implements ir.Operator.
func (op *Squeeze) Infer(c *ir.InferContext) error {
	if err := kit.CheckSmall(c, 1, "axes"); err != nil {
		return err
	}
	in := c.Shape(0)
	kit.SetShape(c, 0, c.Elem(0), nil)
	if in == nil {
		return nil
	}
	out := []ir.Dim{}
	if !c.Has(1) {
		for _, d := range in {
			switch {
			case d.Is(1):
			case d.IsKnown():
				out = append(out, d)
			default:
				return nil
			}
		}
	} else {
		axes, ok := kit.KnownInts(c, 1)
		if !ok {
			if a := c.Contents(1); len(a) == 1 && len(in) > 0 {
				kit.SetShape(c, 0, c.Elem(0), ir.UnknownDims(len(in)-1))
			}
			return nil
		}
		axes, err := squeezedAxes(axes, len(in))
		if err != nil {
			return err
		}
		for i, d := range in {
			if !slices.Contains(axes, i) {
				out = append(out, d)
			} else if n, ok := d.Value(); ok && n != 1 {
				return fail.Errorf("dimension %d of shape %v is %d, want 1", i, in, n)
			}
		}
	}
	kit.SetShape(c, 0, c.Elem(0), out)
	kit.KeepContents(c, out)
	return nil
}

// squeezedAxes returns the non-negative axes. The specification does not forbid that axes repeat.
func squeezedAxes(axes []int, rank int) ([]int, error) {
	r := make([]int, len(axes))
	for i, a := range axes {
		var err error
		if r[i], err = kit.NormalAxis(a, rank); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// Run implements ir.Operator.
func (op *Squeeze) Run(c *ir.Call) error {
	data := c.Tensor(0)
	axes, err := kit.SmallInts(c.Tensor(1), "axes")
	if err != nil {
		return err
	}
	given := c.Has(1)
	if given {
		if axes, err = squeezedAxes(axes, data.Rank()); err != nil {
			return err
		}
	}
	out := make([]int, 0, data.Rank())
	for i, d := range data.Shape() {
		switch drop := given && slices.Contains(axes, i); {
		case drop && d != 1:
			return fail.Errorf("dimension %d of shape %v is %d, want 1", i, data.Shape(), d)
		case drop || !given && d == 1:
		default:
			out = append(out, d)
		}
	}
	r, err := data.Reshape(out...)
	if err != nil {
		return err
	}
	c.Set(0, r)
	return nil
}
