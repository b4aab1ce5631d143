package msft

import (
	"slices"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/reduce"
	"github.com/onward-ml/onward/tensor"
)

// QLinearReduceMean returns the means of quantized numbers along axes
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QLinearReduceMean).
type QLinearReduceMean struct {
	reduce.Reduction
	Axes []int // empty: all axes
}

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "QLinearReduceMean", Since: kit.Versions{1},
	In:  "data:T, data_scale:float, data_zero_point:T?, reduced_scale:float, reduced_zero_point:T?",
	Out: "reduced:T", Types: "T: " + byteTypes,
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		a.Require("axes", "keepdims")
		return &QLinearReduceMean{reduce.Reduction{KeepDims: a.Bool("keepdims", true)}, a.Ints("axes")}
	}})

// Infer removes the axes, or sets them to 1 with KeepDims.
func (o *QLinearReduceMean) Infer(c *ir.InferContext) error {
	shape, err := reducedDims(c.Shape(0), &o.Reduction, o.Axes)
	kit.SetShape(c, 0, c.Elem(0), shape)
	return err
}

// reducedDims returns the shape after a reduction along constant axes.
func reducedDims(shape []ir.Dim, r *reduce.Reduction, axes []int) ([]ir.Dim, error) {
	if shape == nil {
		return nil, nil
	}
	m, err := r.Mask(axes, len(shape))
	if err != nil {
		return nil, err
	}
	out := slices.Clone(shape[:0])
	for i, d := range shape {
		switch {
		case !m[i]:
			out = append(out, d)
		case r.KeepDims:
			out = append(out, ir.Known(1))
		}
	}
	if out == nil {
		out = []ir.Dim{}
	}
	return out, nil
}

// Run sums integers.
func (o *QLinearReduceMean) Run(c *ir.Call) error {
	x := c.Tensor(0)
	in, err := byteQuantOf(c, "data", x.DType(), 1, 2)
	if err != nil {
		return err
	}
	out, err := byteQuantOf(c, "reduced", x.DType(), 3, 4)
	if err != nil {
		return err
	}
	p, err := o.Plan(c, x.Shape(), o.Axes)
	if err != nil {
		return err
	}
	y, err := c.Output(0, x.DType(), p.OutShape...)
	if err != nil {
		return err
	}
	sums, err := reduceBytes(c, p, x)
	if err != nil {
		return err
	}
	scale := in.scale / float32(max(1, p.N)) / out.scale
	dst := y.Bytes()
	for i, s := range sums {
		v := [1]float32{float32(s-int64(p.N)*int64(in.zero)) * scale}
		out.quantize(dst[i:i+1], v[:])
	}
	return nil
}

// reduceBytes sums 8-bit integers according to a reduction plan.
func reduceBytes(c *ir.Call, p *reduce.Plan, x *tensor.Tensor) ([]int64, error) {
	sums, err := ir.ScratchOf[int64](c, kit.Product(p.OutShape))
	if err != nil {
		return nil, err
	}
	wide, err := kit.ScratchTensor(c, tensor.TypeInt64, x.Shape())
	if err != nil {
		return nil, err
	}
	if err := kit.ConvertInto(c, wide, x, tensor.ConvertOptions{}); err != nil {
		return nil, err
	}
	return sums, reduce.Run(c, p, sums, tensor.MustData[int64](wide), reduce.SumReducer[int64, int64]())
}
