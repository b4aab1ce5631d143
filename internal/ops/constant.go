package ops

import (
	"fmt"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// Constant returns the tensor that one of its attributes holds
// (https://onnx.ai/onnx/operators/onnx__Constant.html). A sparse one becomes
// dense.
type Constant struct {
	Value  *tensor.Tensor
	Sparse *tensor.Sparse // when Value is nil
}

var _ = register(Def{Name: "Constant", Since: []int{1, 9, 11, 12, 13, 19, 21, 23, 24, 25},
	Out: "output:T", Types: Types{"T": "@all"}, Build: buildConstant})

func buildConstant(a *Attrs, opset int) (Operator, error) {
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
			v := intsOf64(a.Ints("value_ints"))
			return tensor.New(v, len(v))
		})
		set("value_strings", func() (*tensor.Tensor, error) {
			v := a.Strings("value_strings")
			return tensor.New(v, len(v))
		})
	}
	switch {
	case given != 1:
		return nil, fmt.Errorf("%d attributes hold a value, want exactly one", given)
	case op.Value == nil && op.Sparse == nil:
		return nil, a.Err()
	}
	return op, nil
}

func intsOf64(v []int) []int64 {
	r := make([]int64, len(v))
	for i, n := range v {
		r[i] = int64(n)
	}
	return r
}

// Infer implements ir.Operator.
func (op *Constant) Infer(c *ir.InferContext) error {
	if op.Value == nil {
		setShape(c, 0, op.Sparse.Values.DType(), ir.Dims(op.Sparse.Shape))
		return nil
	}
	c.SetOut(0, ir.TypeOf(op.Value))
	c.SetContents(0, ir.ContentsOf(&ir.Value{Type: ir.TypeOf(op.Value), Const: op.Value}))
	return nil
}

// Run implements ir.Operator.
func (op *Constant) Run(c *ir.Call) error {
	if op.Value != nil {
		return moveValue(c, 0, op.Value)
	}
	s := op.Sparse
	dst, err := moveOut(c, 0, s.Values.DType(), s.Shape...)
	if err != nil {
		return err
	}
	moveClear(dst)
	src, err := moveIn(c, s.Values)
	if err != nil {
		return err
	}
	at, err := sparsePlaces(c, s)
	if err != nil {
		return err
	}
	moveScatter(dst, src, at, 1)
	dst.done()
	return nil
}

// sparsePlaces returns the places of the values of a sparse tensor in the dense
// one.
func sparsePlaces(c *ir.Call, s *tensor.Sparse) ([]int, error) {
	if s.Indices.Rank() == 2 {
		at, _, err := slicePlaces(c, s.Shape, s.Indices, 0)
		return at, err
	}
	return indexList(c, s.Indices, product(s.Shape), "sparse indices")
}
