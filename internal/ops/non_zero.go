package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// NonZero returns the coordinates of the elements that are not zero, one row per
// dimension and one column per element in row-major order; a scalar has no
// coordinates (https://onnx.ai/onnx/operators/onnx__NonZero.html).
type NonZero struct{}

var _ = register(Def{Name: "NonZero", Since: []int{9, 13},
	In: "X:T", Out: "Y:int64", Types: Types{"T": moveTypes},
	Build: simple(func(a *Attrs, opset int) Operator { return &NonZero{} })})

// Infer implements ir.Operator.
func (op *NonZero) Infer(c *ir.InferContext) error {
	out := ir.UnknownDims(2)
	if s := c.Shape(0); s != nil {
		out[0] = ir.Known(len(s))
	}
	setShape(c, 0, tensorInt64, out)
	return nil
}

// Run implements ir.Operator.
func (op *NonZero) Run(c *ir.Call) error {
	x := c.Tensor(0)
	at, err := nonZeroPlaces(c, x)
	if err != nil {
		return err
	}
	n := len(at)
	t, err := c.Output(0, tensorInt64, x.Rank(), n)
	if err != nil {
		return err
	}
	out := tensor.Of[int64](t)
	s := strides(x.Shape())
	for k, d := range x.Shape() {
		row := out[k*n : (k+1)*n]
		for i, p := range at {
			row[i] = int64(p / s[k] % d)
		}
	}
	return nil
}

// nonZeroPlaces returns the places of the elements that are not zero.
func nonZeroPlaces(c *ir.Call, x *tensor.Tensor) ([]int, error) {
	b, err := moveIn(c, x)
	if err != nil {
		return nil, err
	}
	// Negative zeros are zeros.
	sign := uint64(0)
	switch d := x.DType(); d {
	case tensor.TypeFloat16, tensor.TypeBFloat16, tensor.TypeFloat32, tensor.TypeFloat64:
		sign = 1 << (d.Bits() - 1)
	case tensor.TypeComplex64:
		sign = 1<<31 | 1<<63
	case tensor.TypeComplex128:
		sign = 1 << 63
	}
	switch b.width {
	case 0:
		n := 0
		for _, s := range b.strs {
			if s != "" {
				n++
			}
		}
		at, err := ir.ScratchOf[int](c, n)
		if err != nil {
			return nil, err
		}
		n = 0
		for i, s := range b.strs {
			if s != "" {
				at[n] = i
				n++
			}
		}
		return at, nil
	case 1:
		return nonZeroOf(c, b.raw, ^uint8(sign))
	case 2:
		return nonZeroOf(c, moveOf[uint16](b), ^uint16(sign))
	case 4:
		return nonZeroOf(c, moveOf[uint32](b), ^uint32(sign))
	case 8:
		return nonZeroOf(c, moveOf[uint64](b), ^sign)
	}
	pairs := moveOf[[2]uint64](b)
	n := 0
	for _, v := range pairs {
		if (v[0]|v[1])&^sign != 0 {
			n++
		}
	}
	at, err := ir.ScratchOf[int](c, n)
	if err != nil {
		return nil, err
	}
	n = 0
	for i, v := range pairs {
		if (v[0]|v[1])&^sign != 0 {
			at[n] = i
			n++
		}
	}
	return at, nil
}

func nonZeroOf[T uint8 | uint16 | uint32 | uint64](c *ir.Call, s []T, mask T) ([]int, error) {
	n := 0
	for _, v := range s {
		if v&mask != 0 {
			n++
		}
	}
	at, err := ir.ScratchOf[int](c, n)
	if err != nil {
		return nil, err
	}
	n = 0
	for i, v := range s {
		if v&mask != 0 {
			at[n] = i
			n++
		}
	}
	return at, nil
}
