package ops

import (
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/internal/ops/kit/move"
)

// OneHot adds a dimension of size depth at Axis of the output. The element at an index is
// values[1], the others are values[0]. Negative indices count from depth; indices out of range
// select no element (https://onnx.ai/onnx/operators/onnx__OneHot.html).
type OneHot struct{ Axis int }

const oneHotTypes = "@int float16 float double"

var _ = kit.Register(&kit.Def{Name: "OneHot", Since: kit.Versions{9, 11, 28},
	In: "indices:T1, depth:T2, values:T3", Out: "output:T3",
	Types:    "T1: " + oneHotTypes + "; T2: " + oneHotTypes + "; T3: " + move.Types,
	Build:    func(a *kit.Attrs, opset int) kit.Operator { return &OneHot{Axis: a.Int("axis", -1)} },
	Gradient: gradient.None})

// Infer implements ir.Operator.
func (op *OneHot) Infer(c *ir.InferContext) error {
	if err := kit.CheckRank(c, 2, 1, "values"); err != nil {
		return err
	}
	in := c.Shape(0)
	kit.SetShape(c, 0, c.Elem(2), nil)
	if in == nil {
		return nil
	}
	axis, err := kit.NormalAxis(op.Axis, len(in)+1)
	if err != nil {
		return err
	}
	depth := ir.Unknown
	if d := c.Contents(1); len(d) == 1 {
		depth = d[0]
	} else if t := c.Const(1); t != nil && t.Len() == 1 {
		if v, err := kit.AnyInts(t); err == nil {
			depth = ir.Known(v[0])
		}
	}
	if n, ok := depth.Value(); ok && n < 0 {
		return fail.Errorf("depth is %d, want at least 0", n)
	}
	kit.SetShape(c, 0, c.Elem(2), slices.Insert(slices.Clone(in), axis, depth))
	return nil
}

// Run implements ir.Operator.
func (op *OneHot) Run(c *ir.Call) error {
	idx, values := c.Tensor(0), c.Tensor(2)
	if t := c.Tensor(1); t.Len() != 1 {
		return fail.Errorf("depth has shape %v, want one element", t.Shape())
	}
	d, err := kit.AnyInts(c.Tensor(1))
	if err != nil {
		return err
	}
	depth := d[0]
	if depth < 0 {
		return fail.Errorf("depth is %d, want at least 0", depth)
	}
	if values.Len() != 2 || values.Rank() != 1 {
		return fail.Errorf("values have shape %v, want [2]", values.Shape())
	}
	axis, err := kit.NormalAxis(op.Axis, idx.Rank()+1)
	if err != nil {
		return err
	}
	if err := c.Reserve(int64(idx.Len()) * 8); err != nil {
		return err
	}
	at, err := kit.AnyInts(idx)
	if err != nil {
		return err
	}
	dst, err := move.Out(c, 0, values.DType(), slices.Insert(slices.Clone(idx.Shape()), axis, depth)...)
	if err != nil {
		return err
	}
	v, err := move.In(c, values)
	if err != nil {
		return err
	}
	move.Fill(c, dst, v.Slice(0, 1))
	inner := kit.Product(idx.Shape()[axis:])
	n := 0
	meter := ir.Meter{C: c}
	for i, x := range at {
		meter.Check(8)
		if x < 0 {
			x += depth
		}
		if x >= 0 && x < depth {
			at[n] = i/inner*inner*depth + x*inner + i%inner
			n++
		}
	}
	for lo, hi := range ir.Steps(c, n) {
		move.Set(dst, v.Slice(1, 2), at[lo:hi])
	}
	dst.Done()
	return nil
}
