package ops

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/internal/ops/kit/window"
)

// GlobalMaxPool returns the maximum of each plane
// (https://onnx.ai/onnx/operators/onnx__GlobalMaxPool.html).
type GlobalMaxPool struct{}

var _ = kit.Register(&kit.Def{Name: "GlobalMaxPool", Since: kit.Versions{1, 22}, In: "X:T",
	Out: "Y:T", Types: "T: @float",
	Build: func(a *kit.Attrs, opset int) kit.Operator { return &GlobalMaxPool{} },
	Gradient: gradient.Rule(func(b *gradient.Builder, n *gradient.Node, g string) ([]string, error) {
		if err := b.Need(11); err != nil {
			return nil, err
		}
		return []string{b.Share(n.Inputs[0], n.Outputs[0], g)}, nil
	})})

// Infer sets the spatial dimensions to 1.
func (*GlobalMaxPool) Infer(c *ir.InferContext) error { return window.InferGlobalPool(c) }

// Run propagates NaN.
func (*GlobalMaxPool) Run(c *ir.Call) error {
	return window.GlobalPool(c, window.LargestOf[float32],
		func(x []float32) float32 { return vec.ReduceMaxF32(cpu.Active(), x) }, maxRows, window.LargestOf[float64])
}
