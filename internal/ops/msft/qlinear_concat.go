package msft

import (
	"fmt"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/move"
	"github.com/onward-ml/onward/tensor"
)

// QLinearConcat concatenates quantized tensors along one axis and requantizes them to one
// scale and zero point. The inputs are this scale and zero point, then tensor, scale and
// zero point of each part
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QLinearConcat).
type QLinearConcat struct{ Axis int }

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "QLinearConcat", Since: kit.Versions{1},
	Class: kit.ClassShape,
	In:    "Y_scale:TF, Y_zero_point:T8, inputs:any*", Out: "Y:T8", Types: "TF: float; T8: " + byteTypes,
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		a.Require("axis")
		return &QLinearConcat{Axis: a.Int("axis", 0)}
	}})

// Infer adds the sizes along the axis.
func (op *QLinearConcat) Infer(c *ir.InferContext) error {
	kit.SetShape(c, 0, c.Elem(1), nil)
	n := c.NumIn() - 2
	if n < 3 || n%3 != 0 {
		return fail.Errorf("%d inputs follow the output's scale and zero point, want three for each part and at "+
			"least one part", max(n, 0))
	}
	var shapes [][]ir.Dim
	for i := range n {
		want, k := []tensor.DType{c.Elem(1), tensor.TypeFloat32, c.Elem(1)}[i%3], 2+i
		if t := c.Type(k); t.Kind != tensor.KindTensor || t.Elem != want {
			return fail.Errorf("input %d is %s, want a tensor of %s", k, t, want)
		}
		if i%3 == 0 {
			shapes = append(shapes, c.Shape(k))
		}
	}
	out, err := move.ConcatDims(shapes, op.Axis)
	if err != nil {
		return err
	}
	kit.SetShape(c, 0, c.Elem(1), out)
	return nil
}

// Run implements [ir.Operator].
func (op *QLinearConcat) Run(c *ir.Call) error {
	d := c.Tensor(1).DType()
	to, err := byteQuantOf(c, "Y", d, 0, 1)
	if err != nil {
		return err
	}
	n := (c.NumIn() - 2) / 3
	if n < 1 {
		return fail.Errorf("there are no parts to concatenate, want at least one")
	}
	in, from := make([]*tensor.Tensor, n), make([]byteQuant, n)
	for i := range n {
		if in[i] = c.Tensor(2 + 3*i); in[i] == nil || c.Tensor(3+3*i) == nil {
			return fail.Errorf("part %d is missing", i)
		}
		q, err := byteQuantOf(c, fmt.Sprintf("part %d", i), d, 3+3*i, 4+3*i)
		if err != nil {
			return err
		}
		from[i] = q
	}
	shape, axis, err := move.ConcatShape(c, in, op.Axis)
	if err != nil {
		return err
	}
	y, err := c.Output(0, d, shape...)
	if err != nil {
		return err
	}
	// converter returns the function that requantizes elements of part i, or nil if they do not
	// change.
	converter := func(i int) func(dst, src []byte) {
		q := from[i]
		switch {
		case q.scale == to.scale && q.zero == to.zero:
			return nil
		case c.Generic || cpu.VBMI(cpu.Active()) && in[i].Len() >= 2048: // the table takes as long as 2000 elements
			table := q.table(to, sameReal)
			return func(dst, src []byte) { kit.MapBytes(dst, src, table) }
		}
		return func(dst, src []byte) { q.requantize(cpu.Active(), dst, &to, src) }
	}
	outer, inner := move.AxisBlocks(shape, axis)
	const narrow = 128 // elements of a row that take less time to convert than a call
	if !c.Generic && outer > 1 && shape[axis]*inner < narrow*n {
		for i, t := range in {
			convert := converter(i)
			if convert == nil {
				continue
			}
			same, err := ir.ScratchOf[byte](c, t.Len())
			if err != nil {
				return err
			}
			src := t.Bytes()
			c.Parallel(len(src), kit.GrainCheap, func(lo, hi int) { convert(same[lo:hi], src[lo:hi]) })
			if in[i], err = tensor.FromBytes(d, same, t.Shape()...); err != nil {
				return err
			}
		}
		out, err := move.Into(c, y)
		if err != nil {
			return err
		}
		return move.ConcatInto(c, out, in, shape, axis)
	}
	dst, row, at := y.Bytes(), shape[axis]*inner, 0
	for i, t := range in {
		if t.Len() == 0 {
			continue
		}
		src, w := t.Bytes(), t.Dim(axis)*inner
		convert := converter(i)
		if convert == nil {
			convert = func(dst, src []byte) { copy(dst, src) }
		}
		kit.ParallelEach(c, outer, w, func(k int) { convert(dst[k*row+at:][:w], src[k*w:][:w]) })
		at += w
	}
	return nil
}
