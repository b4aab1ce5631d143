package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
)

// Gelu computes x·Φ(x) of each element, Φ being the distribution function of the
// standard normal distribution, or the approximation of it by tanh
// (https://onnx.ai/onnx/operators/onnx__Gelu.html).
type Gelu struct {
	sameTypeAndShape
	Tanh bool
}

var _ = register(Def{Name: "Gelu", Since: []int{20}, In: "X:T", Out: "Y:T", Types: Types{"T": "@float"},
	Build: simple(func(a *Attrs, opset int) Operator {
		return &Gelu{Tanh: a.Enum("approximate", "none", "none", "tanh") == "tanh"}
	})})

var (
	geluLoops     = floatLoops(geluLoop[float32], geluLoop[float64], vec.GeluF32)
	geluTanhLoops = floatLoops(geluTanhLoop[float32], geluTanhLoop[float64], vec.GeluTanhF32)
)

// Run implements [ir.Operator].
func (o *Gelu) Run(c *ir.Call) error {
	if o.Tanh {
		return mapTable(c, geluTanhLoops, grainCostly)
	}
	return mapTable(c, geluLoops, grainCostly)
}

func geluLoop[T floatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		v := float64(x)
		dst[i] = T(gated(v, 0.5*(1+math.Erf(v*(1/math.Sqrt2)))))
	}
}

// geluTanhLoop computes x/2·(1 + tanh(√(2/π)·(x + 0.044715·x³))).
func geluTanhLoop[T floatNumber](dst, src []T) {
	dst = dst[:len(src)]
	const k = 0.79788456080286535588 // √(2/π)
	for i, x := range src {
		v := float64(x)
		dst[i] = T(gated(v, 0.5*(1+math.Tanh(k*(v+0.044715*v*v*v)))))
	}
}

// gated computes x·gate with the limit −0 for x = −∞, whose gate is 0, in place
// of NaN.
func gated(x, gate float64) float64 {
	if gate == 0 {
		return math.Copysign(0, x)
	}
	return x * gate
}
