package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/window"
)

// GlobalLpPool returns the p-norm of each plane
// (https://onnx.ai/onnx/operators/onnx__GlobalLpPool.html).
type GlobalLpPool struct{ P float64 }

var _ = kit.Register(&kit.Def{Name: "GlobalLpPool", Since: kit.Versions{1, 2, 22}, In: "X:T",
	Out: "Y:T", Types: "T: @float",
	Build: func(a *kit.Attrs, opset int) kit.Operator { return &GlobalLpPool{P: window.ReadNorm(a, opset)} }})

// Infer sets the spatial dimensions to 1.
func (*GlobalLpPool) Infer(c *ir.InferContext) error { return window.InferGlobalPool(c) }

// Run adds in float64.
func (p *GlobalLpPool) Run(c *ir.Call) error {
	return window.GlobalPool(c,
		func(v []float32) float32 { return float32(window.NormOf(v, p.P)) }, nil, nil,
		func(v []float64) float64 { return window.NormOf(v, p.P) })
}
