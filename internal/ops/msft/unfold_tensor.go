package msft

import (
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/move"
	"github.com/onward-ml/onward/internal/ops/kit/window"
)

// UnfoldTensor extracts slices of Size elements along an axis, Step apart, and puts the
// elements of each slice along a new last axis
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.UnfoldTensor).
type UnfoldTensor struct{ Axis, Size, Step int }

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "UnfoldTensor", Since: kit.Versions{1}, In: "input:T",
	Out: "output:T", Types: "T: @all",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		a.Require("size")
		op := &UnfoldTensor{a.Int("dim", -1), a.Int("size", 1), a.Int("step", 1)}
		if op.Size < 1 || op.Step < 1 || op.Size > window.Limit || op.Step > window.Limit {
			a.Errorf("attributes size and step are %d and %d, want 1 to %d", op.Size, op.Step, window.Limit)
		}
		return op
	}})

// Infer computes the number of slices.
func (op *UnfoldTensor) Infer(c *ir.InferContext) error {
	t := ir.UnrankedTensor(c.Elem(0))
	if s := c.Shape(0); s != nil {
		axis, err := kit.NormalAxis(op.Axis, len(s))
		if err != nil {
			return err
		}
		t.Shape = append(slices.Clone(s), ir.Known(op.Size))
		t.Shape[axis] = ir.Unknown
		if n, ok := s[axis].Value(); ok {
			if n < op.Size {
				return fail.Errorf("axis %d has %d elements, want at least %d", axis, n, op.Size)
			}
			t.Shape[axis] = ir.Known((n-op.Size)/op.Step + 1)
		}
	}
	c.SetOut(0, t)
	return nil
}

// Run copies the slices.
func (op *UnfoldTensor) Run(c *ir.Call) error {
	x := c.Tensor(0)
	axis, err := kit.NormalAxis(op.Axis, x.Rank())
	if err != nil {
		return err
	}
	n := x.Dim(axis)
	if n < op.Size {
		return fail.Errorf("axis %d has %d elements, want at least %d", axis, n, op.Size)
	}
	shape := append(slices.Clone(x.Shape()), op.Size)
	shape[axis] = (n-op.Size)/op.Step + 1
	src, err := move.In(c, x)
	if err != nil {
		return err
	}
	dst, err := move.Out(c, 0, x.DType(), shape...)
	if err != nil || dst.Len() == 0 {
		return err
	}
	from, to := make([]int, len(shape)), make([]int, len(shape))
	inner := 1
	for d := x.Rank() - 1; d >= 0; d-- {
		from[d] = inner
		inner *= x.Dim(d)
	}
	from[len(shape)-1] = from[axis]
	from[axis] *= op.Step
	step := 1
	for d := len(shape) - 1; d >= 0; d-- {
		to[d] = step
		step *= shape[d]
	}
	move.Strided(c, dst, src, shape, to, 0, from, 0)
	dst.Done()
	return c.Err()
}
