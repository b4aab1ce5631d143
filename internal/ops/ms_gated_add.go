package ops

import (
	"fmt"
	"slices"

	"github.com/onward-ml/onward/internal/ir"
)

// GatedAdd is X + Y·gate with one gate for each row, the product rounded to the
// type of X (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.GatedAdd).
type GatedAdd struct{}

var _ = register(Def{Domain: DomainMicrosoft, Name: "GatedAdd", Since: []int{1}, In: "X:T, Y:T, gate:T", Out: "output:T",
	Types: Types{"T": "float float16 bfloat16"}, Build: withoutAttrs(&GatedAdd{})})

// Infer keeps the type of X.
func (*GatedAdd) Infer(c *ir.InferContext) error { return sameAsInput(c) }

// Run computes in float.
func (*GatedAdd) Run(c *ir.Call) error {
	xt, gt := c.Tensor(0), c.Tensor(2)
	s := xt.Shape()
	if n := len(s); n == 0 || !slices.Equal(s, c.Tensor(1).Shape()) || len(gt.Shape()) != n || !slices.Equal(gt.Shape()[:n-1], s[:n-1]) || gt.Dim(n-1) != 1 {
		return fmt.Errorf("X, Y and gate have shapes %v, %v and %v, want twice [... C] and [... 1]", s, c.Tensor(1).Shape(), gt.Shape())
	}
	var in [3][]float32
	for i := range in {
		var err error
		if in[i], err = realIn[float32](c, c.Tensor(i)); err != nil {
			return err
		}
	}
	y, err := realOut[float32](c, 0, xt.DType(), s...)
	if err != nil || len(y.data) == 0 {
		return err
	}
	cols := s[len(s)-1]
	for i := range y.data {
		y.data[i] = in[1][i] * in[2][i/cols]
	}
	roundTo(y.data, xt.DType())
	for i, v := range in[0] {
		y.data[i] += v
	}
	y.store()
	return nil
}
