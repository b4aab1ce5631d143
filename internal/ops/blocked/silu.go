package blocked

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
)

// Silu computes x·sigmoid(x) of each element. The optimizer makes it of the two.
type Silu struct{ kit.SameTypeAndShape }

var _ = kit.Register(&kit.Def{Domain: kit.DomainInternal, Name: "Silu", Since: kit.Versions{1}, In: "X:T",
	Out: "Y:T", Types: "T: @float",
	Elementwise: true, Vector: kit.Vectorize[*Silu](vec.SiluF32), Build: kit.WithoutAttrs[Silu]})

// NewSilu returns the operator.
func NewSilu() *Silu { return &Silu{} }

var siluLoops = elementwise.FloatLoops(siluLoop[float32], siluLoop[float64], vec.SiluF32)

// Run implements [ir.Operator].
func (*Silu) Run(c *ir.Call) error { return elementwise.MapTable(c, siluLoops, kit.GrainCostly) }

func siluLoop[T kit.FloatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = T(float64(x) / (1 + math.Exp(-float64(x))))
	}
}
