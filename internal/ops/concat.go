package ops

import (
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/internal/ops/kit/move"
	"github.com/onward-ml/onward/tensor"
)

// Concat concatenates tensors along an axis (https://onnx.ai/onnx/operators/onnx__Concat.html).
type Concat struct{ Axis int }

var _ = kit.Register(&kit.Def{Name: "Concat", Since: kit.Versions{1, 4, 11, 13},
	In: "inputs:T+", Out: "concat_result:T", Types: "T: @all",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		if opset >= 4 {
			a.Require("axis")
		}
		return &Concat{Axis: a.Int("axis", 1)}
	},
	Gradient: gradient.Rule(func(b *gradient.Builder, n *gradient.Node, g string) ([]string, error) {
		none := make([]string, len(n.Inputs))
		for i, x := range n.Inputs {
			none[i] = b.Positions(x, 0)
		}
		r := make([]string, len(n.Inputs))
		for i, x := range n.Inputs {
			in := slices.Clone(none)
			in[i] = b.Positions(x, 1)
			r[i] = b.ScatterBack(1, g, b.Again(n, in...)[0], x)
		}
		return r, nil
	})})

// Infer implements ir.Operator.
func (op *Concat) Infer(c *ir.InferContext) error {
	out, err := inferConcat(c, op.Axis)
	if err != nil {
		return err
	}
	kit.SetShape(c, 0, c.Elem(0), out)
	if len(out) != 1 {
		return nil
	}
	all := []ir.Dim{}
	for i := range c.NumIn() {
		d := c.Contents(i)
		if d == nil || len(c.Shape(i)) != 1 || len(all)+len(d) > tensor.MaxRank {
			return nil
		}
		all = append(all, d...)
	}
	c.SetContents(0, all)
	return nil
}

func inferConcat(c *ir.InferContext, axis int) ([]ir.Dim, error) {
	shapes := make([][]ir.Dim, c.NumIn())
	for i := range shapes {
		shapes[i] = c.Shape(i)
	}
	return move.ConcatDims(shapes, axis)
}

// Extends implements [ir.Appender]: the output begins with the first input.
func (op *Concat) Extends(int) (in, axis int, ok bool) { return 0, op.Axis, true }

// Run implements ir.Operator.
func (op *Concat) Run(c *ir.Call) error {
	in := make([]*tensor.Tensor, c.NumIn())
	for i := range in {
		if in[i] = c.Tensor(i); in[i] == nil {
			return fail.Errorf("input %d is missing", i)
		}
	}
	shape, axis, err := move.ConcatShape(c, in, op.Axis)
	if err != nil {
		return err
	}
	if cache, err := c.Extend(0, shape[axis]); cache != nil || err != nil {
		return concatInPlace(c, cache, in, shape, axis, err)
	}
	dst, err := move.Out(c, 0, in[0].DType(), shape...)
	if err != nil {
		return err
	}
	return move.ConcatInto(c, dst, in, shape, axis)
}

// concatInPlace writes all inputs but the first one to a state that begins with it.
func concatInPlace(c *ir.Call, cache *ir.Cache, in []*tensor.Tensor, shape []int, axis int, err error) error {
	if err != nil {
		return err
	}
	outer, row := move.AxisBlocks(shape, axis)
	row *= in[0].DType().Size()
	at := in[0].Dim(axis)
	for _, t := range in[1:] {
		n := t.Dim(axis) * row
		for k := range outer {
			copy(cache.Data[(k*cache.Room+at)*row:][:n], t.Bytes()[k*n:])
		}
		at += t.Dim(axis)
	}
	return c.Err()
}
