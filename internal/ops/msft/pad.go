package msft

import (
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/kit"
)

var _ = kit.Register(kit.Def{Domain: kit.DomainMicrosoft, Name: "Pad", Since: []int{1}, In: "data:T, pads:int64, value:T?", Out: "output:T",
	Types:   kit.Types{"T": "float16 float double"},
	Selects: kit.Always, Build: kit.Simple(func(a *kit.Attrs, opset int) kit.Operator {
		return &ops.Pad{Mode: a.Enum("mode", "constant", "constant", "reflect", "edge"), Row: true}
	})})
