package msft

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
)

// BiasAdd adds a bias [C] and a residual [N S C] to an input [N S C]
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.BiasAdd).
type BiasAdd struct{}

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "BiasAdd", Since: kit.Versions{1},
	In: "X:T, bias:T, skip:T", Out: "Y:T",
	Class: kit.ClassArithmetic,
	Types: "T: float16 float",
	Build: kit.WithoutAttrs[BiasAdd]})

// Infer sets the output to the type of X and checks the ranks.
func (*BiasAdd) Infer(c *ir.InferContext) error {
	c.SetOut(0, c.Type(0))
	for i, want := range []int{3, 1, 3} {
		if err := kit.CheckRank(c, i, want, []string{"X", "bias", "skip"}[i]); err != nil {
			return err
		}
	}
	return nil
}

// Run computes float16 in float32.
func (*BiasAdd) Run(c *ir.Call) error {
	x, bias := c.Tensor(0), c.Tensor(1)
	if x.Rank() != 3 || bias.Rank() != 1 || bias.Dim(0) != x.Dim(2) {
		return fail.Errorf("X and bias have shapes %v and %v, want [N S C] and [C]", x.Shape(), bias.Shape())
	}
	sum, err := addBroadcast[float32](c, x.Shape(), x, bias, c.Tensor(2))
	if err != nil {
		return err
	}
	y, err := kit.RealOut[float32](c, 0, x.DType(), x.Shape()...)
	if err != nil {
		return err
	}
	copy(y.Data, sum)
	y.Store()
	return nil
}
