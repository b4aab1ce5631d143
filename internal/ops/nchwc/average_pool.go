package nchwc

import "github.com/onward-ml/onward/internal/ops/kit"

// AveragePool is the operator of ONNX, see the package documentation.
var _ = kit.Register(&kit.Def{Domain: kit.DomainNchwc, Name: "AveragePool", Since: kit.Versions{1}, In: "X:T",
	Out: "Y:T", Types: "T: float", Build: sameOperator("AveragePool", 19)})
