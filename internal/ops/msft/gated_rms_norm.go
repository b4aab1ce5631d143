package msft

import (
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/reduce"
)

// GatedRMSNorm normalizes groups of elements, each the length of scale, by their root
// mean square, scales them, and multiplies them by the activation of a gate
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.GatedRMSNorm).
type GatedRMSNorm struct {
	Epsilon float32
	Sigmoid bool // the activation is sigmoid, else SiLU
}

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "GatedRMSNorm", Since: kit.Versions{1},
	In: "X:T, scale:T, gate:T", Out: "Y:T",
	Work:  5,
	Types: "T: float float16 bfloat16", Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &GatedRMSNorm{a.Float("epsilon", 1e-5),
			a.Enum("activation", "silu", "silu", "swish", "sigmoid") == "sigmoid"}
	}})

// Infer keeps the type of X.
func (*GatedRMSNorm) Infer(c *ir.InferContext) error { return kit.SameAsInput(c) }

// Run computes in float32.
func (op *GatedRMSNorm) Run(c *ir.Call) error {
	x, scale := c.Tensor(0), c.Tensor(1)
	s := x.Shape()
	if len(s) == 0 || scale.Rank() != 1 || scale.Len() == 0 || s[len(s)-1]%scale.Len() != 0 ||
		!slices.Equal(c.Tensor(2).Shape(), s) {
		return fail.Errorf("X, scale and gate have shapes %v, %v and %v, want twice [... H·C] and [C]", s,
			scale.Shape(), c.Tensor(2).Shape())
	}
	var in [3][]float32
	for i := range in {
		var err error
		if in[i], err = kit.RealIn[float32](c, c.Tensor(i)); err != nil {
			return err
		}
	}
	y, err := kit.RealOut[float32](c, 0, x.DType(), s...)
	if err != nil {
		return err
	}
	rows := reduce.NormRows[float32]{X: in[0], Y: y.Data, Cols: scale.Len(), Gain: in[1], Eps: float64(op.Epsilon)}
	if err := rows.Compute(c); err != nil {
		return err
	}
	c.Parallel(len(y.Data), kit.GrainCostly, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			gate := kit.Sigmoid32(in[2][i])
			if !op.Sigmoid {
				gate *= in[2][i]
			}
			y.Data[i] *= gate
		}
	})
	y.Store()
	return nil
}
