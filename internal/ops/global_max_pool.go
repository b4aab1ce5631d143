package ops

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
)

// GlobalMaxPool returns the maximum of each plane
// (https://onnx.ai/onnx/operators/onnx__GlobalMaxPool.html).
type GlobalMaxPool struct{}

var _ = kit.Register(&kit.Def{Name: "GlobalMaxPool", Since: kit.Versions{1, 22}, In: "X:T", Out: "Y:T", Types: "T: @float",
	Build: func(a *kit.Attrs, opset int) kit.Operator { return &GlobalMaxPool{} },
	Gradient: kit.GradientRule(func(b *kit.GradientBuilder, n *kit.GradientNode, g string) ([]string, error) {
		if err := b.Need(11); err != nil {
			return nil, err
		}
		return []string{b.Share(n.Inputs[0], n.Outputs[0], g)}, nil
	})})

// Infer sets the spatial dimensions to 1.
func (*GlobalMaxPool) Infer(c *ir.InferContext) error { return kit.InferGlobalPool(c) }

// Run propagates NaN.
func (*GlobalMaxPool) Run(c *ir.Call) error {
	return kit.GlobalPool(c, kit.LargestOf[float32], func(x []float32) float32 { return vec.ReduceMaxF32(cpu.Active(), x) }, maxRows, kit.LargestOf[float64])
}
