package ops

import (
	"fmt"
	"slices"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// ScatterElements returns its first input with one element replaced by, or
// reduced with, each element of updates; indices name the coordinate along
// Axis. Of several updates of one place the last one stays
// (https://onnx.ai/onnx/operators/onnx__ScatterElements.html).
type ScatterElements struct {
	Axis      int
	Reduction string // none, add, mul, max, min
}

var scatterSignature = Def{In: "data:T, indices:I, updates:T", Out: "output:T", Types: Types{"T": moveTypes, "I": "int32 int64"},
	Build: simple(func(a *Attrs, opset int) Operator {
		return &ScatterElements{Axis: a.Int("axis", 0), Reduction: scatterReduction(a, opset)}
	})}

var _ = func() *Def {
	d := scatterSignature
	d.Name, d.Since = "ScatterElements", []int{11, 13, 16, 18}
	return register(d)
}()

// Infer implements ir.Operator.
func (op *ScatterElements) Infer(c *ir.InferContext) error {
	data := c.Shape(0)
	if data != nil {
		if _, err := normalAxis(op.Axis, len(data)); err != nil {
			return err
		}
		for i := 1; i <= 2; i++ {
			if err := checkRank(c, i, len(data), []string{"", "indices", "updates"}[i]); err != nil {
				return err
			}
		}
	}
	return sameAsInput(c)
}

// Run implements ir.Operator.
func (op *ScatterElements) Run(c *ir.Call) error {
	data, idx, up := c.Tensor(0), c.Tensor(1), c.Tensor(2)
	axis, err := normalAxis(op.Axis, data.Rank())
	if err != nil {
		return err
	}
	if !slices.Equal(idx.Shape(), up.Shape()) {
		return fmt.Errorf("indices have shape %v, updates %v", idx.Shape(), up.Shape())
	}
	at, err := elementPlaces(c, data.Shape(), idx, axis)
	if err != nil {
		return err
	}
	return scatter(c, data, up, at, 1, op.Reduction)
}

// checkScatterND checks the shapes of a scatter of slices.
func checkScatterND(data, indices, updates *tensor.Tensor) error {
	q := indices.Rank()
	if q < 1 || data.Rank() < 1 {
		return fmt.Errorf("data has rank %d and indices have rank %d, want at least 1", data.Rank(), q)
	}
	width := indices.Dim(q - 1)
	if width > data.Rank() {
		return fmt.Errorf("indices of shape %v have %d coordinates for data of shape %v", indices.Shape(), width, data.Shape())
	}
	want := append(append([]int{}, indices.Shape()[:q-1]...), data.Shape()[width:]...)
	if !slices.Equal(updates.Shape(), want) {
		return fmt.Errorf("updates have shape %v, want %v for data of shape %v and indices of shape %v", updates.Shape(), want, data.Shape(), indices.Shape())
	}
	return nil
}
