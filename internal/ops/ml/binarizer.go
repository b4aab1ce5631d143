package ml

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// Binarizer returns 1 where X is greater than the threshold, else 0
// (https://onnx.ai/onnx/operators/onnx_aionnxml_Binarizer.html).
type Binarizer struct{ Threshold float32 }

var _ = kit.Register(&kit.Def{Domain: kit.DomainML, Name: "Binarizer", Since: kit.Versions{1}, In: "X:T", Out: "Y:T",
	Types: "T: " + mlNumbers,
	Build: func(a *kit.Attrs, opset int) kit.Operator { return &Binarizer{a.Float("threshold", 0)} }})

// Infer sets Y to the type of X.
func (op *Binarizer) Infer(c *ir.InferContext) error { return kit.SameAsInput(c) }

// Run compares every element.
func (op *Binarizer) Run(c *ir.Call) error {
	x := c.Tensor(0)
	y, err := c.Output(0, x.DType(), x.Shape()...)
	if err != nil {
		return err
	}
	switch x.DType() {
	case tensor.TypeFloat32:
		binarize[float32](c, y, x, op.Threshold)
	case tensor.TypeFloat64:
		binarize[float64](c, y, x, op.Threshold)
	case tensor.TypeInt32:
		binarize[int32](c, y, x, op.Threshold)
	case tensor.TypeInt64:
		binarize[int64](c, y, x, op.Threshold)
	default:
		return fail.Errorf("X has type %s, want one of %s", x.DType(), mlNumbers)
	}
	return nil
}

func binarize[T float32 | float64 | int32 | int64](c *ir.Call, y, x *tensor.Tensor, threshold float32) {
	d, s := memory.FromRaw[T](y.Bytes()), memory.FromRaw[T](x.Bytes())
	c.Parallel(len(s), kit.GrainCheap, func(lo, hi int) {
		values := [2]T{0, 1}
		for i := lo; i < hi; i++ {
			above := 0 // an index, which needs no branch
			if float64(s[i]) > float64(threshold) {
				above = 1
			}
			d[i] = values[above&1]
		}
	})
}
