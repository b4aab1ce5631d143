package ops

import (
	"fmt"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// Concat joins tensors along one axis
// (https://onnx.ai/onnx/operators/onnx__Concat.html).
type Concat struct{ Axis int }

var _ = register(Def{Name: "Concat", Since: []int{1, 4, 11, 13},
	In: "inputs:T+", Out: "concat_result:T", Types: Types{"T": "@all"},
	Build: simple(func(a *Attrs, opset int) Operator {
		if opset >= 4 {
			a.Require("axis")
		}
		return &Concat{Axis: a.Int("axis", 1)}
	})})

// Infer implements ir.Operator.
func (op *Concat) Infer(c *ir.InferContext) error {
	out, err := inferConcat(c, op.Axis)
	if err != nil {
		return err
	}
	setShape(c, 0, c.Elem(0), out)
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
	return concatDims(shapes, axis)
}

// concatDims is concatShape as far as shapes are known.
func concatDims(shapes [][]ir.Dim, axis int) ([]ir.Dim, error) {
	var out []ir.Dim
	sum := ir.Known(0)
	for i, s := range shapes {
		if s == nil {
			sum = ir.Unknown
			continue
		}
		a, err := normalAxis(axis, len(s))
		if err != nil {
			return nil, err
		}
		sum = sum.Add(s[a])
		if out == nil {
			out = append([]ir.Dim{}, s...)
			out[a] = ir.Unknown
			continue
		}
		if len(s) != len(out) {
			return nil, fmt.Errorf("input 0 has rank %d, input %d has rank %d", len(out), i, len(s))
		}
		for k := range s {
			if k == a {
				continue
			}
			d, err := ir.Merge(out[k], s[k])
			if err != nil {
				return nil, fmt.Errorf("inputs differ in dimension %d, which is not the axis: %s in input %d, %s before", k, s[k], i, out[k])
			}
			out[k] = d
		}
	}
	if out != nil {
		a, err := normalAxis(axis, len(out))
		if err != nil {
			return nil, err
		}
		out[a] = sum
	}
	return out, nil
}

// Run implements ir.Operator.
func (op *Concat) Run(c *ir.Call) error {
	in := make([]*tensor.Tensor, c.NumIn())
	for i := range in {
		if in[i] = c.Tensor(i); in[i] == nil {
			return fmt.Errorf("input %d is missing", i)
		}
	}
	shape, axis, err := concatShape(in, op.Axis)
	if err != nil {
		return err
	}
	dst, err := moveOut(c, 0, in[0].DType(), shape...)
	if err != nil {
		return err
	}
	return concatInto(c, dst, in, shape, axis)
}

// concatShape returns the shape of joined tensors and their axis in [0, rank).
func concatShape(in []*tensor.Tensor, axis int) ([]int, int, error) {
	axis, err := normalAxis(axis, in[0].Rank())
	if err != nil {
		return nil, 0, err
	}
	shape := append([]int{}, in[0].Shape()...)
	for i, t := range in[1:] {
		if t.Rank() != len(shape) {
			return nil, 0, fmt.Errorf("input 0 has rank %d, input %d has rank %d", len(shape), i+1, t.Rank())
		}
		if t.DType() != in[0].DType() {
			return nil, 0, fmt.Errorf("input 0 is %s, input %d is %s", in[0].DType(), i+1, t.DType())
		}
		for k, d := range t.Shape() {
			if k != axis && d != shape[k] {
				return nil, 0, fmt.Errorf("shapes %v of input 0 and %v of input %d differ in dimension %d, which is not axis %d", in[0].Shape(), t.Shape(), i+1, k, axis)
			}
		}
		shape[axis] += t.Dim(axis)
		if shape[axis] < 0 {
			return nil, 0, fmt.Errorf("dimension %d of the result overflows", axis)
		}
	}
	return shape, axis, nil
}

// concatInto writes joined tensors.
func concatInto(c *ir.Call, dst moveBuf, in []*tensor.Tensor, shape []int, axis int) error {
	outer, inner := axisBlocks(shape, axis)
	row := shape[axis] * inner
	at := 0
	for _, t := range in {
		src, err := moveIn(c, t)
		if err != nil {
			return err
		}
		w := t.Dim(axis) * inner
		moveStrided(c, dst, src, []int{outer, w}, []int{row, 1}, at, []int{w, 1}, 0)
		at += w
	}
	dst.done()
	return nil
}
