package msft

import (
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/matmul"
)

// FusedMatMul is alpha times the MatMul of two tensors. transA and transB swap the last two
// dimensions. Before that, transBatchA and transBatchB move the first dimension after the other
// batch dimensions
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.FusedMatMul).
var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "FusedMatMul", Since: kit.Versions{1},
	In: "A:T, B:T", Out: "Y:T",
	MACs:  kit.FusedMatMulMACs,
	Types: "T: @float",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &matmul.TransposedMatMul{Alpha: a.Float("alpha", 1),
			Trans: [2]bool{a.Bool("transA", false), a.Bool("transB", false)},
			Batch: [2]bool{a.Bool("transBatchA", false), a.Bool("transBatchB", false)}}
	}})
