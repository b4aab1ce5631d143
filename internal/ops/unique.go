package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/move"
)

// Unique returns the distinct slices of its input along Axis, or without an axis the distinct
// elements of the flattened input. It also returns the index of the first occurrence of each, the
// index among the distinct slices of each slice of the input, and the numbers of occurrences.
// Slices are in ascending order or in order of first occurrence. NaNs are equal to each other and
// come last (https://onnx.ai/onnx/operators/onnx__Unique.html).
type Unique struct {
	Axis   int
	Flat   bool // no axis
	Sorted bool
}

var _ = kit.Register(&kit.Def{Name: "Unique", Since: kit.Versions{11, 28},
	In: "X:T", Out: "Y:T, indices:int64?, inverse_indices:int64?, counts:int64?", Types: "T: " + move.Types,
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &Unique{Axis: a.Int("axis", 0), Flat: !a.Has("axis"), Sorted: a.Bool("sorted", true)}
	}})

// Infer implements ir.Operator.
func (op *Unique) Infer(c *ir.InferContext) error {
	for i := 1; i < 4; i++ {
		kit.SetShape(c, i, kit.TensorInt64, ir.UnknownDims(1))
	}
	in := c.Shape(0)
	switch {
	case op.Flat:
		kit.SetShape(c, 0, c.Elem(0), ir.UnknownDims(1))
		if in != nil {
			kit.SetShape(c, 2, kit.TensorInt64, []ir.Dim{ir.Product(in)})
		}
		return nil
	case in == nil:
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
	kit.SetShape(c, 2, kit.TensorInt64, []ir.Dim{in[axis]})
	return nil
}

// Run implements ir.Operator.
func (op *Unique) Run(c *ir.Call) error {
	x, axis := c.Tensor(0), 0
	var err error
	if op.Flat {
		x, err = x.Reshape(x.Len())
	} else {
		axis, err = kit.NormalAxis(op.Axis, x.Rank())
	}
	if err != nil {
		return err
	}
	first, group, counts, err := move.UniqueSlices(c, x, axis, op.Sorted)
	if err != nil {
		return err
	}
	if err := move.GatherAxis(c, x, axis, first, []int{len(first)}); err != nil {
		return err
	}
	for i, v := range [][]int{1: first, 2: group, 3: counts} {
		if i > 0 && c.Wants(i) {
			if err := kit.OutInt64s(c, i, v, len(v)); err != nil {
				return err
			}
		}
	}
	return nil
}
