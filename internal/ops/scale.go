package ops

// Scale computes scale·x of each element. It is one of the experimental operators
// that ONNX removed with opset 10
// (https://github.com/onnx/onnx/blob/v1.4.1/docs/Operators.md#Scale).
var _ = register(Def{Name: "Scale", Since: []int{1}, Until: 9, Successor: "Mul", In: "input:T", Out: "output:T", Types: Types{"T": "float16 float double"},
	Build: simple(func(a *Attrs, opset int) Operator { return newAffine(float64(a.Float("scale", 1)), 0) })})
