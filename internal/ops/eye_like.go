package ops

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// EyeLike returns a matrix of the shape of its input with ones on diagonal K and zeros elsewhere
// (https://onnx.ai/onnx/operators/onnx__EyeLike.html).
type EyeLike struct {
	likeInput
	K int
}

var _ = kit.Register(&kit.Def{Name: "EyeLike", Since: kit.Versions{9, 22}, In: "input:T1", Out: "output:T2",
	Class: kit.ClassShape,
	Types: "T1: @number bool; T2: @number bool",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		o := &EyeLike{likeInput{DType: a.DType("dtype", tensor.Undefined)}, a.Int("k", 0)}
		if o.DType == tensor.TypeString || o.DType.Packed() {
			a.Errorf("attribute dtype is %s, want a number or bool", o.DType)
		}
		return o
	}})

// Infer implements [ir.Operator].
func (o *EyeLike) Infer(c *ir.InferContext) error {
	if err := kit.CheckRank(c, 0, 2, "input"); err != nil {
		return err
	}
	return o.likeInput.Infer(c)
}

// Run implements [ir.Operator].
func (o *EyeLike) Run(c *ir.Call) error {
	x := c.Tensor(0)
	if x.Rank() != 2 {
		return fail.Errorf("input has rank %d, want 2", x.Rank())
	}
	out, err := c.Output(0, o.Elem(x.DType()), x.Shape()...)
	if err != nil {
		return err
	}
	one, err := tensor.Convert(tensor.Scalar(true), out.DType(), nil)
	if err != nil {
		return err
	}
	dst, elem := out.Bytes(), one.Bytes()
	ir.Clear(c, dst)
	rows, cols := x.Dim(0), x.Dim(1)
	if o.K <= -rows || o.K >= cols {
		return nil
	}
	for i := max(0, -o.K); i < rows && i+o.K < cols; i++ {
		copy(dst[(i*cols+i+o.K)*len(elem):], elem)
	}
	return nil
}
