package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/tensor"
)

// Gelu returns x·Φ(x) for each element, where Φ is the distribution function of the standard normal
// distribution or its tanh approximation (https://onnx.ai/onnx/operators/onnx__Gelu.html).
type Gelu struct {
	kit.SameTypeAndShape
	Tanh bool
}

var _ = kit.Register(&kit.Def{Name: "Gelu", Since: kit.Versions{20}, In: "X:T", Out: "Y:T", Types: "T: @float",
	Elementwise: true, Vector: GeluVector, Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &Gelu{Tanh: a.Enum("approximate", "none", "none", "tanh") == "tanh"}
	},
	Gradient: gradient.DecomposedFunction(geluParts)})

// geluParts computes x/2·(1 + erf(x/√2)), or the approximation by tanh.
func geluParts(b *gradient.Builder, n *gradient.Node, x string) string {
	half := b.Op("Div", x, b.Filled(2, x))
	if n.Attrs.Text("approximate") == "tanh" {
		cube := b.Op("Mul", x, b.Op("Mul", x, x))
		inner := b.Scaled(float32(math.Sqrt(2/math.Pi)), b.Op("Add", x, b.Scaled(0.044715, cube)))
		return b.Op("Mul", half, b.Plus(b.Op("Tanh", inner), 1))
	}
	return b.Op("Mul", half, b.Plus(b.Op("Erf", b.Op("Div", x, b.Op("Sqrt", b.Filled(2, x)))), 1))
}

var (
	geluLoops     = elementwise.FloatLoops(kit.GeluLoop[float32], kit.GeluLoop[float64], vec.GeluF32)
	geluTanhLoops = elementwise.LoopsOf(elementwise.WithUnary(elementwise.Loop1(kit.GeluTanhLoop[float32]),
		vec.GeluTanhF32), elementwise.WithKernel1(elementwise.Loop1(kit.GeluTanhLoop[float64]), kit.GeluTanhF64))
)

// GeluVector is the trait Vector of Gelu.
func GeluVector(op kit.Operator, _ []*tensor.Tensor) kit.VecUnary {
	switch o, ok := op.(*Gelu); {
	case !ok:
		return nil
	case o.Tanh:
		return vec.GeluTanhF32
	}
	return vec.GeluF32
}

// Run implements [ir.Operator].
func (o *Gelu) Run(c *ir.Call) error {
	if o.Tanh {
		return elementwise.MapTable(c, geluTanhLoops, kit.GrainCostly)
	}
	return elementwise.MapTable(c, geluLoops, kit.GrainCostly)
}
