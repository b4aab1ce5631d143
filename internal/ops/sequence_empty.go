package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// SequenceEmpty returns an empty sequence of tensors of type DType
// (https://onnx.ai/onnx/operators/onnx__SequenceEmpty.html).
type SequenceEmpty struct{ DType tensor.DType }

var _ = kit.Register(&kit.Def{Name: "SequenceEmpty", Since: kit.Versions{11},
	Out: "output:seq(T)", Types: seqTypes,
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &SequenceEmpty{DType: a.DType("dtype", tensor.TypeFloat32)}
	}})

// Infer implements ir.Operator.
func (op *SequenceEmpty) Infer(c *ir.InferContext) error {
	c.SetOut(0, ir.SequenceOf(ir.UnrankedTensor(op.DType)))
	return nil
}

// Run implements ir.Operator.
func (op *SequenceEmpty) Run(c *ir.Call) error {
	c.Set(0, &tensor.Sequence{Elem: tensor.TensorType(op.DType)})
	return nil
}
