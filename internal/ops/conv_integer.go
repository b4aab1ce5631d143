package ops

import (
	"errors"
	"fmt"

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
	s, packed, err := convBytesShape(c, &v.Window, v.Group, c.Tensor(0), c.Tensor(1), packed)
	if err != nil {
		return err
	}
	t, err := c.Output(0, tensor.TypeInt32, s.shape...)
	if err != nil || t.Len() == 0 {
		return err
	}
	y := tensor.Of[int32](t)
	if packed == nil {
		return convolveBytes(c, &s, c.Tensor(0), c.Tensor(1), c.Tensor(2), c.Tensor(3), nil, y)
	}
	out := product(s.out)
	return convBytesRun(c, &s, c.Tensor(0), packed, c.Tensor(2), c.Tensor(3), nil, func(img, g, p0, rows int, sums []int32, _ []byte) {
		for k := range s.mg {
			to := y[(img*s.m+g*s.mg+k)*out+p0:][:rows]
			for i := range to {
				to[i] = sums[i*s.mg+k]
			}
		}
	})
}

// convBytesShape checks the shapes of a convolution of 8-bit integers and packs
// the weights unless they are already or the plain engine wants them as they are.
func convBytesShape(c *ir.Call, win *Window, group int, x, w *tensor.Tensor, packed *convWeights) (convShape, *convWeights, error) {
	switch {
	case packed != nil:
		s, err := newConvShape(win, group, x.Shape(), packed.shape)
		return s, packed, err
	case w == nil:
		return convShape{}, nil, errors.New("weights are missing")
	}
	s, err := newConvShape(win, group, x.Shape(), w.Shape())
	if err != nil || c.Generic || !convWorthPacking(w.Shape(), group) {
		return s, nil, err
	}
	if err := c.Reserve(int64(s.group) * (quantLen(s.depth(), s.mg) + int64(s.depth()*s.mg))); err != nil {
		return s, nil, err
	}
	return s, packConv(w, group), nil
}

// convIntegerPacked is a ConvInteger with constant weights.
type convIntegerPacked struct {
	ConvInteger
	w *convWeights
}

// Prepare packs constant weights.
func (v *ConvInteger) Prepare(in []tensor.Value, types []ir.Type) (ir.Operator, []int, error) {
	if w, ok := in[1].(*tensor.Tensor); ok && convWorthPacking(w.Shape(), v.Group) {
		return &convIntegerPacked{ConvInteger: *v, w: packConv(w, v.Group)}, []int{1}, nil
	}
	return nil, nil, nil
}

// Run convolves with the packed weights.
func (v *convIntegerPacked) Run(c *ir.Call) error { return v.run(c, v.w) }

// checkConvZeros checks the zero points of a convolution: one for the input, and
// one or one per output channel for the weights.
func checkConvZeros(s *convShape, xz, wz *tensor.Tensor) error {
	if xz != nil && xz.Len() != 1 {
		return fmt.Errorf("zero point of the input has shape %v, want one element", xz.Shape())
	}
	if wz != nil && wz.Len() != 1 && (wz.Rank() != 1 || wz.Len() != s.m) {
		return fmt.Errorf("zero point of the weights has shape %v, want one element or [%d]", wz.Shape(), s.m)
	}
	return nil
}

// convolveBytes convolves 8-bit x and w less their zero points, which may be
// nil; that of w may have one element per output channel.
func convolveBytes(c *ir.Call, s *convShape, x, w, xz, wz *tensor.Tensor, bias, y []int32) error {
	if err := checkConvZeros(s, xz, wz); err != nil {
		return err
	}
	xs, err := bytesLess(c, x, xz, 1)
	if err != nil {
		return err
	}
	ws, err := bytesLess(c, w, wz, s.m)
	if err != nil {
		return err
	}
	return convolve(c, s, xs, ws, bias, y)
}

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
