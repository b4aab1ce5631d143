package ops

import "github.com/onward-ml/onward/internal/ops/kit"

// Scale returns scale·x for each element. It is an experimental operator that ONNX removed with
// opset 10 (https://github.com/onnx/onnx/blob/v1.4.1/docs/Operators.md#Scale).
var _ = kit.Register(&kit.Def{Name: "Scale", Since: kit.Versions{1}, Until: 9, Successor: "Mul", In: "input:T",
	Out: "output:T", Types: "T: float16 float double",
	Elementwise: true, Build: func(a *kit.Attrs, opset int) kit.Operator {
		return newAffine(float64(a.Float("scale", 1)), 0)
	}})
