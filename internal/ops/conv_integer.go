package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// ConvInteger convolves 8-bit integers, less their zero points, to int32.
// Padding stands for the zero point.
type ConvInteger struct {
	Window
	Group int
}

var _ = register(Def{Name: "ConvInteger", Since: []int{10}, In: "x:T1, w:T2, x_zero_point:T1?, w_zero_point:T2?", Out: "y:T3",
	Types: Types{"T1": "int8 uint8", "T2": "int8 uint8", "T3": "int32"},
	Build: simple(func(a *Attrs, opset int) Operator {
		return &ConvInteger{Window: readWindow(a, true), Group: readGroup(a)}
	})})

// Infer checks channels and computes the windows' number.
func (v *ConvInteger) Infer(c *ir.InferContext) error {
	return inferConv(c, &v.Window, v.Group, 0, 1, ir.UnrankedTensor(tensor.TypeInt32))
}

// Run sums as int32.
func (v *ConvInteger) Run(c *ir.Call) error { return v.run(c, nil) }

// run convolves; packed are the weights when they are constant.
func (v *ConvInteger) run(c *ir.Call, packed *convWeights) error {
	x, w, xz, wz := c.Tensor(0), c.Tensor(1), c.Tensor(2), c.Tensor(3)
	s, packed, err := convBytesShape(c, &v.Window, v.Group, x, w, xz, wz, packed)
	if err != nil {
		return err
	}
	t, err := c.Output(0, tensor.TypeInt32, s.shape...)
	if err != nil || t.Len() == 0 {
		return err
	}
	if packed == nil {
		return convolveBytes(c, &s, x, w, xz, wz, nil, tensor.Of[int32](t))
	}
	return packed.integers(c, &s, x, xz, nil, tensor.Of[int32](t))
}

// convIntegerPacked is a ConvInteger with constant weights.
type convIntegerPacked struct {
	ConvInteger
	w *convWeights
}

// Prepare packs constant weights.
func (v *ConvInteger) Prepare(in []tensor.Value, types []ir.Type) (ir.Operator, []int, error) {
	w, err := prepareConvBytes(in, types, 1, 3, v.Group)
	if w == nil || err != nil {
		return nil, nil, err
	}
	return &convIntegerPacked{ConvInteger: *v, w: w}, []int{1}, nil
}

// Run convolves with the packed weights.
func (v *convIntegerPacked) Run(c *ir.Call) error { return v.run(c, v.w) }

// bytesLess widens a tensor of 8-bit integers and subtracts a zero point from
// each of its first n equal parts, the same from all if there is only one. A nil
// zero point is 0.
func bytesLess(c *ir.Call, t, zero *tensor.Tensor, n int) ([]int32, error) {
	r, err := ir.ScratchOf[int32](c, t.Len())
	if err != nil || len(r) == 0 {
		return r, err
	}
	if t.DType() == tensor.TypeInt8 {
		bytesLessOf[int8](r, t, zero, n)
	} else {
		bytesLessOf[uint8](r, t, zero, n)
	}
	return r, nil
}

func bytesLessOf[T int8 | uint8](dst []int32, t, zero *tensor.Tensor, n int) {
	src := tensor.Of[T](t)
	var zs []T
	if zero != nil {
		zs = tensor.Of[T](zero)
	}
	if len(zs) <= 1 {
		n = 1
	}
	part := len(src) / n
	for i := range n {
		var z int32
		if len(zs) > 0 {
			z = int32(zs[i])
		}
		d := dst[i*part:][:part]
		for k, v := range src[i*part:][:part] {
			d[k] = int32(v) - z
		}
	}
}
