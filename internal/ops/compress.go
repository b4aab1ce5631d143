package ops

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/internal/ops/kit/move"
)

// Compress returns the slices along Axis for which the condition is true, or without an axis the
// elements of the flattened input. The condition may be shorter than the dimension; the remaining
// slices are dropped (https://onnx.ai/onnx/operators/onnx__Compress.html).
type Compress struct {
	Axis int
	Flat bool // no axis
}

var _ = kit.Register(&kit.Def{Name: "Compress", Since: kit.Versions{9, 11, 28},
	In: "input:T, condition:bool", Out: "output:T", Types: "T: " + move.Types,
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &Compress{Axis: a.Int("axis", 0), Flat: !a.Has("axis")}
	},
	Gradient: gradient.Move})

// Infer implements ir.Operator.
func (op *Compress) Infer(c *ir.InferContext) error {
	if err := kit.CheckRank(c, 1, 1, "condition"); err != nil {
		return err
	}
	if op.Flat {
		kit.SetShape(c, 0, c.Elem(0), ir.UnknownDims(1))
		return nil
	}
	in := c.Shape(0)
	if in == nil {
		kit.SetShape(c, 0, c.Elem(0), nil)
		return nil
	}
	axis, err := kit.NormalAxis(op.Axis, len(in))
	if err != nil {
		return err
	}
	out := append([]ir.Dim{}, in...)
	out[axis] = ir.Unknown
	kit.SetShape(c, 0, c.Elem(0), out)
	return nil
}

// Run implements ir.Operator.
func (op *Compress) Run(c *ir.Call) error {
	x, cond := c.Tensor(0), c.Tensor(1)
	if cond.Rank() != 1 {
		return fail.Errorf("condition has rank %d, want 1", cond.Rank())
	}
	axis, n := 0, x.Len()
	if !op.Flat {
		var err error
		if axis, err = kit.NormalAxis(op.Axis, x.Rank()); err != nil {
			return err
		}
		n = x.Dim(axis)
	}
	at, err := move.NonZeroOffsets(c, cond)
	if err != nil {
		return err
	}
	for len(at) > 0 && at[len(at)-1] >= n {
		at = at[:len(at)-1]
	}
	if !op.Flat {
		return move.GatherAxis(c, x, axis, at, []int{len(at)})
	}
	flat, err := x.Reshape(n)
	if err != nil {
		return err
	}
	return move.GatherAxis(c, flat, 0, at, []int{len(at)})
}
