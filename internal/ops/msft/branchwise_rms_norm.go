package msft

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/reduce"
	"github.com/onward-ml/onward/internal/ops/kit/window"
	"github.com/onward-ml/onward/tensor"
)

// branches describes inputs with several feature streams: [... C H], or [... C·H] if the
// number C of branches is given by an attribute.
type branches struct{ Number int }

func readBranches(a *kit.Attrs) branches {
	b := branches{a.Int("num_branches", 0)}
	if b.Number < 0 || b.Number > window.Limit {
		a.Errorf("num_branches is %d, want 0 to %d", b.Number, window.Limit)
	}
	return b
}

// split returns the numbers of rows, branches and features per branch of a shape.
func (b branches) split(name string, s []int) (rows, num, features int, err error) {
	n := len(s)
	if b.Number > 0 {
		if n < 1 || s[n-1]%b.Number != 0 {
			return 0, 0, 0, fail.Errorf("%s has shape %v, want a last dimension divisible by %d branches",
				name, s, b.Number)
		}
		return kit.Product(s[:n-1]), b.Number, s[n-1] / b.Number, nil
	}
	if n < 2 {
		return 0, 0, 0, fail.Errorf("%s has shape %v, want [... branches features]", name, s)
	}
	return kit.Product(s[:n-2]), s[n-2], s[n-1], nil
}

// BranchwiseRMSNorm normalizes each branch by its root mean square
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.BranchwiseRMSNorm).
type BranchwiseRMSNorm struct {
	branches
	Epsilon float32
}

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "BranchwiseRMSNorm", Since: kit.Versions{1},
	In: "X:T, scale:M?", Out: "Y:T",
	Work:  4,
	Types: "T: float float16 bfloat16; M: float float16 bfloat16", Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &BranchwiseRMSNorm{readBranches(a), a.Float("epsilon", 1e-5)}
	}})

// Infer keeps the type of X.
func (*BranchwiseRMSNorm) Infer(c *ir.InferContext) error { return kit.SameAsInput(c) }

// Run computes in float32.
func (op *BranchwiseRMSNorm) Run(c *ir.Call) error {
	x := c.Tensor(0)
	rows, num, features, err := op.split("X", x.Shape())
	if err != nil {
		return err
	}
	in, err := kit.RealIn[float32](c, x)
	if err != nil {
		return err
	}
	y, err := kit.RealOut[float32](c, 0, x.DType(), x.Shape()...)
	if err != nil || len(in) == 0 {
		return err
	}
	norm := reduce.NormRows[float32]{X: in, Y: y.Data, Cols: features, Eps: float64(op.Epsilon)}
	if err := norm.Compute(c); err != nil {
		return err
	}
	if t := c.Tensor(1); t != nil {
		scale, err := branchScale(c, "scale", t, num, features)
		if err != nil {
			return err
		}
		for i := range rows {
			row := y.Data[i*num*features:][:num*features]
			for k := range row {
				row[k] *= scale[k%len(scale)]
			}
		}
	}
	y.Store()
	return nil
}

// branchScale reads scale factors: one vector for all branches, or one vector per branch.
func branchScale(c *ir.Call, name string, t *tensor.Tensor, num, features int) ([]float32, error) {
	if n := t.Len(); n != features && n != num*features {
		return nil, fail.Errorf("%s has shape %v, want one vector, or one per branch, for %d branches of %d features",
			name, t.Shape(), num, features)
	}
	return kit.RealIn[float32](c, t)
}
