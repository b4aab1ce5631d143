package msft

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/kit"
)

// FusedGemm is a Gemm followed by an activation
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.FusedGemm).
type FusedGemm struct {
	gemm ops.Gemm
	act  fusedActivation
}

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "FusedGemm", Since: kit.Versions{1},
	In: "A:T, B:T, C:T?", Out: "Y:T",
	MACs:  kit.GemmMACs,
	Types: "T: @float", Build: func(a *kit.Attrs, opset int) kit.Operator {
		var params []float32
		for _, name := range []string{"activation_alpha", "activation_beta", "activation_gamma"} {
			if v := a.Float(name, 0); a.Has(name) {
				params = append(params, v)
			}
		}
		return &FusedGemm{ops.Gemm{Alpha: a.Float("alpha", 1), Beta: a.Float("beta", 1),
			TransA: a.Bool("transA", false), TransB: a.Bool("transB", false)},
			ReadFusedActivation(a, params)}
	}})

// Infer infers the shape of the GEMM.
func (op *FusedGemm) Infer(c *ir.InferContext) error { return op.gemm.Infer(c) }

// Run computes the GEMM and applies the activation in place.
func (op *FusedGemm) Run(c *ir.Call) error {
	if err := c.Inner(&op.gemm); err != nil {
		return err
	}
	return op.act.apply(c)
}
