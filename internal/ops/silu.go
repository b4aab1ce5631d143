package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
)

// Silu computes x·sigmoid(x) of each element. The optimizer makes it of the two.
type Silu struct{ sameTypeAndShape }

// NewSilu returns the operator.
func NewSilu() *Silu { return &Silu{} }

var siluLoops = floatLoops(siluLoop[float32], siluLoop[float64], vec.SiluF32)

// Run implements [ir.Operator].
func (*Silu) Run(c *ir.Call) error { return mapTable(c, siluLoops, grainCostly) }

func siluLoop[T floatNumber](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = T(float64(x) / (1 + math.Exp(-float64(x))))
	}
}
