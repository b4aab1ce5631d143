package nchwc

import "github.com/onward-ml/onward/internal/ops/kit"

// MaxPool is the operator of ONNX, see the package documentation.
var _ = kit.Register(&kit.Def{Domain: kit.DomainNchwc, Name: "MaxPool", Since: kit.Versions{1}, In: "X:T", Out: "Y:T",
	Types: "T: float", Build: sameOperator("MaxPool", 12)})
