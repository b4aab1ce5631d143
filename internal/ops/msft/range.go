package msft

import (
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// The Range of com.microsoft has an optional delta with default 1.
var _ = kit.Register(kit.Def{Domain: kit.DomainMicrosoft, Name: "Range", Since: []int{1}, In: "start:T, limit:T, delta:T?", Out: "Y:T",
	Types: kit.Types{"T": "float double int16 int32 int64"},
	Build: kit.Simple(func(a *kit.Attrs, opset int) kit.Operator {
		return &ops.Range{StashType: tensor.TypeFloat32}
	})})
