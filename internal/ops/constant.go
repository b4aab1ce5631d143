package ops

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/internal/ops/kit/move"
	"github.com/onward-ml/onward/tensor"
)

// Constant returns the value of one of its attributes as a tensor. A sparse value becomes dense
// (https://onnx.ai/onnx/operators/onnx__Constant.html).
type Constant struct {
	Value  *tensor.Tensor
	Sparse *tensor.Sparse // used if Value is nil
}

var _ = kit.Register(&kit.Def{Name: "Constant", Since: kit.Versions{1, 9, 11, 12, 13, 19, 21, 23, 24, 25},
	Out: "output:T", Types: "T: @all", Build: buildConstant,
	Gradient: gradient.None})

func buildConstant(a *kit.Attrs, opset int) kit.Operator {
	op := &Constant{Value: a.Tensor("value")}
	given := 0
	if a.Has("value") {
		given++
	}
	set := func(name string, read func() (*tensor.Tensor, error)) {
		if !a.Has(name) {
			return
		}
		given++
		t, err := read()
		if err != nil {
			a.Errorf("attribute %s: %w", name, err)
		}
		op.Value = t
	}
	if opset >= 11 && a.Has("sparse_value") {
		given++
		op.Sparse = a.Sparse("sparse_value")
	}
	if opset >= 12 {
		set("value_float", func() (*tensor.Tensor, error) { return tensor.Scalar(a.Float("value_float", 0)), nil })
		set("value_int", func() (*tensor.Tensor, error) { return tensor.Scalar(int64(a.Int("value_int", 0))), nil })
		set("value_string", func() (*tensor.Tensor, error) { return tensor.Scalar(a.String("value_string", "")), nil })
		set("value_floats", func() (*tensor.Tensor, error) {
			v := a.Floats("value_floats")
			return tensor.New(v, len(v))
		})
		set("value_ints", func() (*tensor.Tensor, error) {
			v := kit.IntsOf64(a.Ints("value_ints"))
			return tensor.New(v, len(v))
		})
		set("value_strings", func() (*tensor.Tensor, error) {
			v := a.Strings("value_strings")
			return tensor.New(v, len(v))
		})
	}
	switch {
	case given != 1:
		return a.Fail(fail.Errorf("%d value attributes are set, want exactly one", given))
	case op.Value == nil && op.Sparse == nil:
		return nil // the attribute has another type, which a has recorded
	}
	return op
}

// Infer implements ir.Operator.
func (op *Constant) Infer(c *ir.InferContext) error {
	if op.Value == nil {
		kit.SetShape(c, 0, op.Sparse.Values.DType(), ir.Dims(op.Sparse.Shape))
		return nil
	}
	c.SetOut(0, ir.TypeOf(op.Value))
	c.SetContents(0, ir.ContentsOf(&ir.Value{Type: ir.TypeOf(op.Value), Const: op.Value}))
	return nil
}

// Run implements ir.Operator.
func (op *Constant) Run(c *ir.Call) error {
	if op.Value != nil {
		return move.Value(c, 0, op.Value)
	}
	s := op.Sparse
	dst, err := move.Out(c, 0, s.Values.DType(), s.Shape...)
	if err != nil {
		return err
	}
	move.Clear(c, dst)
	src, err := move.In(c, s.Values)
	if err != nil {
		return err
	}
	at, err := move.SparseOffsets(c, s)
	if err != nil {
		return err
	}
	move.Scatter(dst, src, at, 1)
	dst.Done()
	return nil
}
