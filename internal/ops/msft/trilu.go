package msft

import (
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/kit"
)

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "Trilu", Since: kit.Versions{1},
	In: "X:T, k:int64?", Out: "Y:T",
	Class: kit.ClassShape,
	Types: "T: @float @int bool",
	Build: func(a *kit.Attrs, opset int) kit.Operator { return &ops.Trilu{Upper: a.Bool("upper", true)} }})
