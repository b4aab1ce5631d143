package nchwc

import "github.com/onward-ml/onward/internal/ops/kit"

// GlobalMaxPool is the operator of ONNX, see the package documentation.
var _ = kit.Register(&kit.Def{Domain: kit.DomainNchwc, Name: "GlobalMaxPool", Since: kit.Versions{1}, In: "X:T",
	Out: "Y:T", Types: "T: float", Build: sameOperator("GlobalMaxPool", 1)})
