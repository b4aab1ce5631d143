package ops

import "github.com/onward-ml/onward/internal/ir"

// FusedGemm is a Gemm whose result goes through an activation
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.FusedGemm).
type FusedGemm struct {
	gemm Gemm
	act  fusedActivation
}

var _ = register(Def{Domain: DomainMicrosoft, Name: "FusedGemm", Since: []int{1}, In: "A:T, B:T, C:T?", Out: "Y:T",
	Types: Types{"T": "@float"}, Build: simple(func(a *Attrs, opset int) Operator {
		var params []float32
		for _, name := range []string{"activation_alpha", "activation_beta", "activation_gamma"} {
			if v := a.Float(name, 0); a.Has(name) {
				params = append(params, v)
			}
		}
		return &FusedGemm{Gemm{Alpha: a.Float("alpha", 1), Beta: a.Float("beta", 1), TransA: a.Bool("transA", false), TransB: a.Bool("transB", false)},
			readFusedActivation(a, params)}
	})})

// Infer infers the product.
func (op *FusedGemm) Infer(c *ir.InferContext) error { return op.gemm.Infer(c) }

// Run computes the product and changes it in place.
func (op *FusedGemm) Run(c *ir.Call) error {
	if err := c.Inner(&op.gemm); err != nil {
		return err
	}
	return op.act.apply(c)
}
