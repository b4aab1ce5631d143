package ops

import (
	"fmt"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// branches are streams of features: [... C H], or [... C·H] where the number C is
// given.
type branches struct{ Number int }

func readBranches(a *Attrs) branches {
	b := branches{a.Int("num_branches", 0)}
	if b.Number < 0 || b.Number > windowLimit {
		a.Errorf("num_branches is %d, want 0 to %d", b.Number, windowLimit)
	}
	return b
}

// split returns the numbers of rows, of branches and of features of a shape.
func (b branches) split(name string, s []int) (rows, num, features int, err error) {
	n := len(s)
	if b.Number > 0 {
		if n < 1 || s[n-1]%b.Number != 0 {
			return 0, 0, 0, fmt.Errorf("%s has shape %v, want a last dimension that %d branches divide", name, s, b.Number)
		}
		return product(s[:n-1]), b.Number, s[n-1] / b.Number, nil
	}
	if n < 2 {
		return 0, 0, 0, fmt.Errorf("%s has shape %v, want [... branches features]", name, s)
	}
	return product(s[:n-2]), s[n-2], s[n-1], nil
}

// BranchwiseRMSNorm normalizes each branch by its root mean square
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.BranchwiseRMSNorm).
type BranchwiseRMSNorm struct {
	branches
	Epsilon float32
}

var _ = register(Def{Domain: DomainMicrosoft, Name: "BranchwiseRMSNorm", Since: []int{1}, In: "X:T, scale:M?", Out: "Y:T",
	Types: Types{"T": "float float16 bfloat16", "M": "float float16 bfloat16"}, Build: simple(func(a *Attrs, opset int) Operator {
		return &BranchwiseRMSNorm{readBranches(a), a.Float("epsilon", 1e-5)}
	})})

// Infer keeps the type of X.
func (*BranchwiseRMSNorm) Infer(c *ir.InferContext) error { return sameAsInput(c) }

// Run computes in float.
func (op *BranchwiseRMSNorm) Run(c *ir.Call) error {
	x := c.Tensor(0)
	rows, num, features, err := op.split("X", x.Shape())
	if err != nil {
		return err
	}
	in, err := realIn[float32](c, x)
	if err != nil {
		return err
	}
	y, err := realOut[float32](c, 0, x.DType(), x.Shape()...)
	if err != nil || len(in) == 0 {
		return err
	}
	norm := normRows[float32]{x: in, y: y.data, cols: features, eps: float64(op.Epsilon)}
	if err := norm.run(c); err != nil {
		return err
	}
	if t := c.Tensor(1); t != nil {
		scale, err := branchScale(c, "scale", t, num, features)
		if err != nil {
			return err
		}
		for i := range rows {
			row := y.data[i*num*features:][:num*features]
			for k := range row {
				row[k] *= scale[k%len(scale)]
			}
		}
	}
	y.store()
	return nil
}

// branchScale reads factors for all branches, or for each.
func branchScale(c *ir.Call, name string, t *tensor.Tensor, num, features int) ([]float32, error) {
	if n := t.Len(); n != features && n != num*features {
		return nil, fmt.Errorf("%s has shape %v for %d branches of %d features", name, t.Shape(), num, features)
	}
	return realIn[float32](c, t)
}
