package msft

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/reduce"
	"github.com/onward-ml/onward/tensor"
)

// ReduceSumInteger sums 8-bit integers along axes to 32-bit integers of the same
// signedness
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.ReduceSumInteger).
type ReduceSumInteger struct {
	reduce.Reduction
	Axes []int // empty: all axes
}

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "ReduceSumInteger", Since: kit.Versions{1},
	In: "data:T1", Out: "reduced:T2",
	Types: "T1: " + byteTypes + "; T2: int32 uint32",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		a.Require("axes", "keepdims")
		return &ReduceSumInteger{reduce.Reduction{KeepDims: a.Bool("keepdims", true)}, a.Ints("axes")}
	}})

func (*ReduceSumInteger) elem(d tensor.DType) tensor.DType {
	if d == tensor.TypeUint8 {
		return tensor.TypeUint32
	}
	return tensor.TypeInt32
}

// Infer removes the axes, or sets them to 1 with KeepDims.
func (o *ReduceSumInteger) Infer(c *ir.InferContext) error {
	shape, err := reducedDims(c.Shape(0), &o.Reduction, o.Axes)
	kit.SetShape(c, 0, o.elem(c.Elem(0)), shape)
	return err
}

// Run implements [ir.Operator].
func (o *ReduceSumInteger) Run(c *ir.Call) error {
	x := c.Tensor(0)
	p, err := o.Plan(c, x.Shape(), o.Axes)
	if err != nil {
		return err
	}
	y, err := c.Output(0, o.elem(x.DType()), p.OutShape...)
	if err != nil {
		return err
	}
	sums, err := reduceBytes(c, p, x)
	if err != nil {
		return err
	}
	dst := memory.FromRaw[uint32](y.Bytes())
	for i, s := range sums {
		dst[i] = uint32(s)
	}
	return nil
}
