package msft

import "github.com/onward-ml/onward/internal/ops/kit"

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "SkipGroupNorm", Since: kit.Versions{1},
	Work: 7,
	In:   "X:T, gamma:M, beta:M, skip:T, bias:T?", Out: "Y:T, S:T?",
	Types: "T: float16 float; M: float16 float",
	Build: func(a *kit.Attrs, opset int) kit.Operator { return readGroupNorm(a, true) }})
