package msft

import (
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/matmul"
)

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "TransposeMatMul", Since: kit.Versions{1},
	In: "A:T, B:T", Out: "Y:T",
	MACs:  kit.FusedMatMulMACs,
	Types: "T: @float",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &matmul.TransposedMatMul{Alpha: a.Float("alpha", 1),
			Trans: [2]bool{a.Bool("transA", false), a.Bool("transB", false)}}
	}})
