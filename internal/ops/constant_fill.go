package ops

import (
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/move"
	"github.com/onward-ml/onward/tensor"
)

// ConstantFill returns a tensor filled with Value. Its shape is the attribute Shape if there is no
// input, the contents of the input if AsShape is set, and otherwise the shape of the input; Extra
// is appended. It is an experimental operator that ONNX removed with opset 10
// (https://github.com/onnx/onnx/blob/v1.4.1/docs/Operators.md#ConstantFill). Up to opset 8, torch's
// exporter uses it for the initial states of recurrent layers.
type ConstantFill struct {
	Value        *tensor.Tensor // a scalar
	Shape, Extra []int
	AsShape      bool
}

var _ = kit.Register(&kit.Def{Name: "ConstantFill", Since: kit.Versions{1}, Until: 9, Successor: "ConstantOfShape",
	In: "input:T1?", Out: "output:T2",
	Class: kit.ClassShape,
	Types: "T1: float int32 int64 bool; T2: float int32 int64 bool",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		op := &ConstantFill{Shape: a.Ints("shape"), Extra: a.Ints("extra_shape"),
			AsShape: a.Bool("input_as_shape", false)}
		if a.NumIn == 0 && (op.AsShape || len(op.Extra) > 0) {
			a.Errorf("input_as_shape and extra_shape need an input")
		}
		if a.NumIn > 0 && len(op.Shape) > 0 {
			a.Errorf("attribute shape is %v, but the shape comes from an input", op.Shape)
		}
		if _, err := tensor.Elements(slices.Concat(op.Shape, op.Extra)); err != nil {
			a.Errorf("attributes shape and extra_shape: %v", err)
		}
		d := a.DType("dtype", tensor.TypeFloat32)
		switch d {
		case tensor.TypeFloat32, tensor.TypeInt32, tensor.TypeInt64, tensor.TypeBool:
		default:
			a.Errorf("attribute dtype is %s, want float, int32, int64 or bool", d)
			return op
		}
		v, err := tensor.Convert(tensor.Scalar(a.Float("value", 0)), d, nil)
		if err != nil {
			a.Errorf("attribute value: %w", err)
		}
		op.Value = v
		return op
	}})

// Infer implements [ir.Operator].
func (op *ConstantFill) Infer(c *ir.InferContext) error {
	shape := make([]ir.Dim, 0, len(op.Shape))
	for _, d := range op.Shape {
		shape = append(shape, ir.Known(d))
	}
	switch {
	case c.Has(0) && op.AsShape:
		if err := op.listed(c.Elem(0)); err != nil {
			return err
		}
		if err := kit.CheckRank(c, 0, 1, "input"); err != nil {
			return err
		}
		shape = c.Contents(0)
		for i, d := range shape {
			if n, ok := d.Value(); ok && n < 0 {
				return kit.NegativeDim(i, n)
			}
		}
	case c.Has(0):
		shape = c.Shape(0)
	}
	if shape != nil {
		shape = slices.Clip(shape)
		for _, d := range op.Extra {
			shape = append(shape, ir.Known(d))
		}
	}
	kit.SetShape(c, 0, op.Value.DType(), shape)
	return nil
}

func (op *ConstantFill) listed(d tensor.DType) error {
	if d != tensor.TypeInt32 && d != tensor.TypeInt64 {
		return fail.Errorf("input has type %s, want int32 or int64 for a shape", d)
	}
	return nil
}

// Run implements [ir.Operator].
func (op *ConstantFill) Run(c *ir.Call) error {
	shape := op.Shape
	if c.Has(0) && op.AsShape {
		if err := op.listed(c.Tensor(0).DType()); err != nil {
			return err
		}
		var err error
		if shape, err = kit.SmallInts(c.Tensor(0), "input"); err != nil {
			return err
		}
	} else if c.Has(0) {
		shape = c.Tensor(0).Shape()
	}
	dst, err := move.Out(c, 0, op.Value.DType(), slices.Concat(shape, op.Extra)...)
	if err != nil {
		return err
	}
	v, err := move.In(c, op.Value)
	if err != nil {
		return err
	}
	move.Fill(c, dst, v)
	dst.Done()
	return nil
}
