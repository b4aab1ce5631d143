package msft

import (
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/ops/kit/reduce"
	"github.com/onward-ml/onward/tensor"
)

// BiasSoftmax computes the softmax of data + bias over all dimensions from Axis on. The
// bias is broadcast to the shape of data
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.BiasSoftmax).
type BiasSoftmax struct{ reduce.SoftmaxAxis }

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "BiasSoftmax", Since: kit.Versions{1},
	In: "data:T, bias:T", Out: "output:T",
	Work:  5,
	Types: "T: float16 float double",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		a.Require("is_inner_broadcast")
		a.Int("is_inner_broadcast", 0) // the shape of the bias determines the broadcast
		return &BiasSoftmax{reduce.SoftmaxAxis{Axis: a.Int("axis", 1), Flatten: true}}
	}})

// Run adds data and bias in scratch memory and computes the softmax from there.
func (o *BiasSoftmax) Run(c *ir.Call) error {
	if c.Tensor(0).DType() == tensor.TypeFloat64 {
		return biasSoftmax[float64](c, o)
	}
	return biasSoftmax[float32](c, o)
}

func biasSoftmax[T kit.RealFloat](c *ir.Call, o *BiasSoftmax) error {
	t := c.Tensor(0)
	s, err := o.Span(t.Shape())
	if err != nil {
		return err
	}
	sum, err := addBroadcast[T](c, t.Shape(), t, c.Tensor(1))
	if err != nil {
		return err
	}
	y, err := kit.RealOut[T](c, 0, t.DType(), t.Shape()...)
	if err != nil {
		return err
	}
	if err := s.EachLine(c, func(base, m int) { reduce.SoftmaxLines(c, y.Data, sum, s, base, m) }); err != nil {
		return err
	}
	y.Store()
	return nil
}

// addBroadcast returns the sum of ts, each broadcast to shape, in scratch memory.
func addBroadcast[T kit.RealFloat](c *ir.Call, shape []int, ts ...*tensor.Tensor) ([]T, error) {
	r, err := kit.ScratchTensor(c, tensor.DTypeOf[T](), shape)
	if err != nil {
		return nil, err
	}
	sum := tensor.MustData[T](r)
	ir.Clear(c, sum)
	for _, t := range ts {
		if out, err := kit.BroadcastShapes(shape, t.Shape()); err != nil || !slices.Equal(out, shape) {
			return nil, fail.Errorf("shape %v cannot be broadcast to %v", t.Shape(), shape)
		}
		wide, err := kit.ToScratch(c, t, tensor.DTypeOf[T]())
		if err != nil {
			return nil, err
		}
		err = elementwise.RunLoopInto(c, *elementwise.Loop2(elementwise.AddLoop[T]), kit.GrainCheap, r,
			[]*tensor.Tensor{r, wide}, [][]int{shape, t.Shape()})
		if err != nil {
			return nil, err
		}
	}
	return sum, nil
}
