package nchwc

import "github.com/onward-ml/onward/internal/ops/kit"

// GlobalAveragePool is the operator of ONNX, see the package documentation.
var _ = kit.Register(&kit.Def{Domain: kit.DomainNchwc, Name: "GlobalAveragePool", Since: kit.Versions{1}, In: "X:T",
	Out: "Y:T", Types: "T: float", Build: sameOperator("GlobalAveragePool", 1)})
