package ops

import "github.com/onward-ml/onward/tensor"

// The contrib form of Range may leave delta out, which then is 1.
var _ = register(Def{Domain: DomainMicrosoft, Name: "Range", Since: []int{1}, In: "start:T, limit:T, delta:T?", Out: "Y:T",
	Types: Types{"T": "float double int16 int32 int64"},
	Build: simple(func(a *Attrs, opset int) Operator {
		return &Range{StashType: tensor.TypeFloat32}
	})})
