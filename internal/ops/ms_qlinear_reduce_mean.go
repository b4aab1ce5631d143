package ops

import (
	"slices"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// QLinearReduceMean takes the mean of quantized numbers along axes
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.QLinearReduceMean).
type QLinearReduceMean struct {
	reduction
	Axes []int // none: all
}

var _ = register(Def{Domain: DomainMicrosoft, Name: "QLinearReduceMean", Since: []int{1},
	In:  "data:T, data_scale:float, data_zero_point:T?, reduced_scale:float, reduced_zero_point:T?",
	Out: "reduced:T", Types: Types{"T": byteTypes},
	Build: simple(func(a *Attrs, opset int) Operator {
		a.Require("axes", "keepdims")
		return &QLinearReduceMean{reduction{KeepDims: a.Bool("keepdims", true)}, a.Ints("axes")}
	})})

// Infer drops the axes or makes them 1.
func (o *QLinearReduceMean) Infer(c *ir.InferContext) error {
	shape, err := reducedDims(c.Shape(0), &o.reduction, o.Axes)
	setShape(c, 0, c.Elem(0), shape)
	return err
}

// reducedDims is the shape after a reduction along constant axes.
func reducedDims(shape []ir.Dim, r *reduction, axes []int) ([]ir.Dim, error) {
	if shape == nil {
		return nil, nil
	}
	m, err := r.mask(axes, len(shape))
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

// Run sums whole numbers.
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
	p, err := o.plan(x.Shape(), o.Axes)
	if err != nil {
		return err
	}
	y, err := c.Output(0, x.DType(), p.outShape...)
	if err != nil {
		return err
	}
	sums, err := reduceBytes(c, p, x)
	if err != nil {
		return err
	}
	scale := in.scale / float32(max(1, p.n)) / out.scale
	dst := y.Bytes()
	for i, s := range sums {
		v := [1]float32{float32(s-int64(p.n)*int64(in.zero)) * scale}
		out.quantize(dst[i:i+1], v[:])
	}
	return nil
}

// reduceBytes sums 8-bit integers by a plan.
func reduceBytes(c *ir.Call, p *reducePlan, x *tensor.Tensor) ([]int64, error) {
	sums, err := ir.ScratchOf[int64](c, product(p.outShape))
	if err != nil {
		return nil, err
	}
	wide, err := scratchTensor(c, tensor.TypeInt64, x.Shape())
	if err != nil {
		return nil, err
	}
	if err := convertInto(c, wide, x, tensor.ConvertOptions{}); err != nil {
		return nil, err
	}
	r := sumReducer[int64, int64]()
	return sums, runReducer(c, p, sums, tensor.Of[int64](wide), &r)
}
