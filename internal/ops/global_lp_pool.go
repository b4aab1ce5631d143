package ops

import "github.com/onward-ml/onward/internal/ir"

// GlobalLpPool takes the p-norm of every plane.
type GlobalLpPool struct{ P float64 }

var _ = register(Def{Name: "GlobalLpPool", Since: []int{1, 2, 22}, In: "X:T", Out: "Y:T", Types: Types{"T": "@float"},
	Build: simple(func(a *Attrs, opset int) Operator { return &GlobalLpPool{P: readNorm(a, opset)} })})

// Infer makes the spatial dimensions 1.
func (*GlobalLpPool) Infer(c *ir.InferContext) error { return inferGlobalPool(c) }

// Run sums as double.
func (p *GlobalLpPool) Run(c *ir.Call) error {
	return globalPool(c,
		func(v []float32) float32 { return float32(normOf(v, p.P)) }, nil,
		func(v []float64) float64 { return normOf(v, p.P) })
}
