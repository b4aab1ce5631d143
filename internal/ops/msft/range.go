package msft

import (
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// The Range of com.microsoft has an optional delta with default 1.
var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "Range", Since: kit.Versions{1},
	In: "start:T, limit:T, delta:T?", Out: "Y:T",
	Class: kit.ClassShape,
	Types: "T: float double int16 int32 int64",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &ops.Range{StashType: tensor.TypeFloat32}
	}})
