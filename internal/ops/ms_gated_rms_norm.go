package ops

import (
	"fmt"
	"slices"

	"github.com/onward-ml/onward/internal/ir"
)

// GatedRMSNorm normalizes groups of as many elements as scale has by their root
// mean square, scales them, and multiplies by the activation of a gate
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.GatedRMSNorm).
type GatedRMSNorm struct {
	Epsilon float32
	Sigmoid bool // of the gate, else gate·sigmoid(gate)
}

var _ = register(Def{Domain: DomainMicrosoft, Name: "GatedRMSNorm", Since: []int{1}, In: "X:T, scale:T, gate:T", Out: "Y:T",
	Types: Types{"T": "float float16 bfloat16"}, Build: simple(func(a *Attrs, opset int) Operator {
		return &GatedRMSNorm{a.Float("epsilon", 1e-6), a.Enum("activation", "silu", "silu", "swish", "sigmoid") == "sigmoid"}
	})})

// Infer keeps the type of X.
func (*GatedRMSNorm) Infer(c *ir.InferContext) error { return sameAsInput(c) }

// Run computes in float.
func (op *GatedRMSNorm) Run(c *ir.Call) error {
	x, scale := c.Tensor(0), c.Tensor(1)
	s := x.Shape()
	if len(s) == 0 || scale.Rank() != 1 || scale.Len() == 0 || s[len(s)-1]%scale.Len() != 0 || !slices.Equal(c.Tensor(2).Shape(), s) {
		return fmt.Errorf("X, scale and gate have shapes %v, %v and %v, want twice [... H·C] and [C]", s, scale.Shape(), c.Tensor(2).Shape())
	}
	var in [3][]float32
	for i := range in {
		var err error
		if in[i], err = realIn[float32](c, c.Tensor(i)); err != nil {
			return err
		}
	}
	y, err := realOut[float32](c, 0, x.DType(), s...)
	if err != nil {
		return err
	}
	rows := normRows[float32]{x: in[0], y: y.data, cols: scale.Len(), gain: in[1], eps: float64(op.Epsilon)}
	if err := rows.run(c); err != nil {
		return err
	}
	err = eachRange(c, len(y.data), grainCostly, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			gate := sigmoid32(in[2][i])
			if !op.Sigmoid {
				gate *= in[2][i]
			}
			y.data[i] *= gate
		}
	})
	if err == nil {
		y.store()
	}
	return err
}
