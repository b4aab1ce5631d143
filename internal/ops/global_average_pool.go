package ops

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/internal/ops/kit/window"
)

// GlobalAveragePool returns the mean of each plane
// (https://onnx.ai/onnx/operators/onnx__GlobalAveragePool.html).
type GlobalAveragePool struct{}

var _ = kit.Register(&kit.Def{Name: "GlobalAveragePool", Since: kit.Versions{1, 22}, In: "X:T",
	Out: "Y:T", Types: "T: @float",
	Build: func(a *kit.Attrs, opset int) kit.Operator { return &GlobalAveragePool{} },
	Gradient: gradient.Rule(func(b *gradient.Builder, n *gradient.Node, g string) ([]string, error) {
		x := n.Inputs[0]
		count := b.SumTo(b.Filled(1, x), n.Outputs[0])
		return []string{b.Op("onward.ExpandTo", b.Op("Div", g, count), x)}, nil
	})})

// Infer sets the spatial dimensions to 1.
func (*GlobalAveragePool) Infer(c *ir.InferContext) error { return window.InferGlobalPool(c) }

// Run adds in float64.
func (*GlobalAveragePool) Run(c *ir.Call) error {
	return window.GlobalPool(c, window.MeanOf[float32], func(x []float32) float32 {
		return vec.SumF32(cpu.Active(), x) / float32(len(x))
	}, meanRows, window.MeanOf[float64])
}
