package msft

import (
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/kit"
)

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "Pad", Since: kit.Versions{1},
	In: "data:T, pads:int64, value:T?", Out: "output:T",
	Types:   "T: float16 float double",
	Selects: kit.Always, Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &ops.Pad{Mode: a.Enum("mode", "constant", "constant", "reflect", "edge"), Row: true}
	}})
