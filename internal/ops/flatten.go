package ops

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
)

// Flatten reshapes a tensor to a matrix: the dimensions before Axis become rows, the others columns
// (https://onnx.ai/onnx/operators/onnx__Flatten.html).
type Flatten struct{ Axis int }

var _ = kit.Register(&kit.Def{Name: "Flatten", Since: kit.Versions{1, 9, 11, 13, 21, 23, 24, 25},
	In: "input:T", Out: "output:T", Types: "T: @all",
	Selects:  kit.Always,
	Build:    func(a *kit.Attrs, opset int) kit.Operator { return &Flatten{Axis: a.Int("axis", 1)} },
	Gradient: gradient.Reshape})

// ViewOf implements ir.View.
func (op *Flatten) ViewOf() int { return 0 }

// axis returns the axis in [0, rank]. It may equal the rank.
func (op *Flatten) axis(rank int) (int, error) {
	if op.Axis < -rank || op.Axis > rank {
		return 0, fail.Errorf("axis %d is out of range [%d, %d] for rank %d", op.Axis, -rank, rank, rank)
	}
	if op.Axis < 0 {
		return op.Axis + rank, nil
	}
	return op.Axis, nil
}

// Infer implements ir.Operator.
func (op *Flatten) Infer(c *ir.InferContext) error {
	in := c.Shape(0)
	out := ir.UnknownDims(2)
	if in != nil {
		a, err := op.axis(len(in))
		if err != nil {
			return err
		}
		out = []ir.Dim{ir.Product(in[:a]), ir.Product(in[a:])}
	}
	kit.SetShape(c, 0, c.Elem(0), out)
	return nil
}

// Run implements ir.Operator.
func (op *Flatten) Run(c *ir.Call) error {
	x := c.Tensor(0)
	a, err := op.axis(x.Rank())
	if err != nil {
		return err
	}
	out, err := x.Reshape(kit.Product(x.Shape()[:a]), kit.Product(x.Shape()[a:]))
	if err != nil {
		return err
	}
	c.Set(0, out)
	return nil
}
