package ops

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
)

// GlobalMaxPool takes the maximum of every plane.
type GlobalMaxPool struct{}

var _ = register(Def{Name: "GlobalMaxPool", Since: []int{1, 22}, In: "X:T", Out: "Y:T", Types: Types{"T": "@float"},
	Build: simple(func(a *Attrs, opset int) Operator { return &GlobalMaxPool{} })})

// Infer makes the spatial dimensions 1.
func (*GlobalMaxPool) Infer(c *ir.InferContext) error { return inferGlobalPool(c) }

// Run returns NaN for planes that hold one.
func (*GlobalMaxPool) Run(c *ir.Call) error {
	return globalPool(c, largestOf[float32], func(x []float32) float32 { return vec.ReduceMaxF32(cpu.Active(), x) }, largestOf[float64])
}
