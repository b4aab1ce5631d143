package msft

import (
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
)

// BiasSplitGelu adds a bias [D] to an input [N S D], splits the last dimension in halves
// and multiplies the first half by the Gelu of the second
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.BiasSplitGelu).
type BiasSplitGelu struct{}

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "BiasSplitGelu", Since: kit.Versions{1},
	In: "X:T, bias:T", Out: "Y:T",
	Types: "T: float16 float",
	Build: kit.WithoutAttrs[BiasSplitGelu]})

// Infer halves the last dimension.
func (*BiasSplitGelu) Infer(c *ir.InferContext) error {
	out := c.Type(0)
	if s := out.Shape; s != nil {
		if len(s) != 3 {
			c.SetOut(0, out)
			return fail.Errorf("X has rank %d, want 3", len(s))
		}
		out.Shape = slices.Clone(s)
		out.Shape[2] = s[2].Div(ir.Known(2))
	}
	c.SetOut(0, out)
	return nil
}

// Run computes float16 in float32.
func (*BiasSplitGelu) Run(c *ir.Call) error {
	x, bias := c.Tensor(0), c.Tensor(1)
	s := x.Shape()
	if len(s) != 3 || s[2]%2 != 0 || bias.Rank() != 1 || bias.Dim(0) != s[2] {
		return fail.Errorf("X and bias have shapes %v and %v, want [N S D] and [D] with an even D", s, bias.Shape())
	}
	sum, err := addBroadcast[float32](c, s, x, bias)
	if err != nil {
		return err
	}
	half := s[2] / 2
	y, err := kit.RealOut[float32](c, 0, x.DType(), s[0], s[1], half)
	if err != nil {
		return err
	}
	kit.ParallelEach(c, s[0]*s[1], 8*half, func(i int) {
		row := sum[i*s[2]:][:s[2]]
		kit.GeluLoop(row[half:], row[half:])
		elementwise.MulLoop(y.Data[i*half:][:half], row[:half], row[half:])
	})
	y.Store()
	return nil
}
