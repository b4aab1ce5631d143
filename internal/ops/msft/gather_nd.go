package msft

import (
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/move"
)

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "GatherND", Since: kit.Versions{1},
	In: "data:T, indices:Tind", Out: "output:T",
	Types: "T: " + move.Types + "; Tind: int32 int64",
	Build: func(a *kit.Attrs, opset int) kit.Operator { return &ops.GatherND{} }})
