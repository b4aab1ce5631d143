package blocked

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/tensor"
)

// Silu computes x·sigmoid(alpha·x) of each element, for a positive alpha. The optimizer makes it of
// the two or three operators.
type Silu struct {
	kit.SameTypeAndShape
	Alpha float64
	loops elementwise.Table
}

var _ = kit.Register(&kit.Def{Domain: kit.DomainInternal, Name: "Silu", Since: kit.Versions{1}, In: "X:T",
	Out: "Y:T", Types: "T: @float",
	Elementwise: true, Vector: SiluVector,
	Build: func(a *kit.Attrs, opset int) kit.Operator { return NewSilu(float64(a.Float("alpha", 1))) }})

// NewSilu returns the operator.
func NewSilu(alpha float64) *Silu {
	s := &Silu{Alpha: alpha}
	s.loops = elementwise.FloatLoops(func(dst, src []float32) { kit.SwishLoop(dst, src, alpha) },
		func(dst, src []float64) { kit.SwishLoop(dst, src, alpha) }, SiluVector(s, nil))
	return s
}

// SiluVector is the trait Vector of Silu.
func SiluVector(op kit.Operator, _ []*tensor.Tensor) kit.VecUnary {
	s, ok := op.(*Silu)
	switch {
	case !ok:
		return nil
	case s.Alpha == 1:
		return vec.SiluF32
	}
	alpha := float32(s.Alpha)
	return func(l cpu.Level, dst, x []float32) {
		var gates [512]float32
		for len(x) > 0 {
			n := min(len(x), len(gates))
			y, g := dst[:n], gates[:n]
			vec.MulScalarF32(l, g, x[:n], alpha)
			vec.SigmoidF32(l, g, g)
			vec.MaxScalarF32(l, y, x[:n], -math.MaxFloat32) // -Inf·0 is NaN
			vec.MulF32(l, y, y, g)
			dst, x = dst[n:], x[n:]
		}
	}
}

// Run implements [ir.Operator].
func (s *Silu) Run(c *ir.Call) error { return elementwise.MapTable(c, s.loops, kit.GrainCostly) }
