package ops

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
)

// GlobalAveragePool takes the mean of every plane.
type GlobalAveragePool struct{}

var _ = register(Def{Name: "GlobalAveragePool", Since: []int{1, 22}, In: "X:T", Out: "Y:T", Types: Types{"T": "@float"},
	Build: simple(func(a *Attrs, opset int) Operator { return &GlobalAveragePool{} })})

// Infer makes the spatial dimensions 1.
func (*GlobalAveragePool) Infer(c *ir.InferContext) error { return inferGlobalPool(c) }

// Run sums as double.
func (*GlobalAveragePool) Run(c *ir.Call) error {
	return globalPool(c, meanOf[float32], func(x []float32) float32 {
		return vec.SumF32(cpu.Active(), x) / float32(len(x))
	}, meanOf[float64])
}
