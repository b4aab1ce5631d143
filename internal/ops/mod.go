package ops

import (
	"errors"
	"math"

	"github.com/onward-ml/onward/internal/ir"
)

// Mod computes the remainder of a division. With Fmod it has the sign of the
// dividend, as C's fmod; otherwise that of the divisor, as Python's %
// (https://onnx.ai/onnx/operators/onnx__Mod.html). Before opset 28
// ONNX wants Fmod for floats; without it they follow Python in every opset.
type Mod struct{ Fmod bool }

var _ = register(Def{Name: "Mod", Since: []int{10, 13, 28}, In: "A:T, B:T", Out: "C:T", Types: Types{"T": "@number"},
	Build: func(a *Attrs, opset int) (Operator, error) {
		v := a.Int("fmod", 0)
		if v != 0 && v != 1 {
			return nil, errors.New("attribute fmod must be 0 or 1")
		}
		return &Mod{Fmod: v == 1}, nil
	}})

var modLoops = loopsOf(
	loop2(modInt[int8]), loop2(modInt[int16]), loop2(modInt[int32]), loop2(modInt[int64]),
	loop2(remainderInt[uint8]), loop2(remainderInt[uint16]), loop2(remainderInt[uint32]), loop2(remainderInt[uint64]),
	loop2(modFloat[float32]), loop2(modFloat[float64]))

var fmodLoops = loopsOf(
	loop2(remainderInt[int8]), loop2(remainderInt[int16]), loop2(remainderInt[int32]), loop2(remainderInt[int64]),
	loop2(remainderInt[uint8]), loop2(remainderInt[uint16]), loop2(remainderInt[uint32]), loop2(remainderInt[uint64]),
	loop2(fmodFloat[float32]), loop2(fmodFloat[float64]))

// Infer implements [ir.Operator].
func (*Mod) Infer(c *ir.InferContext) error {
	return inferBinary(c, axisBroadcast{}, c.Elem(0), nil)
}

// Run implements [ir.Operator].
func (o *Mod) Run(c *ir.Call) error {
	if c.Tensor(0).Len() > 0 {
		if err := refuseZeroDivisor(c.Tensor(1)); err != nil {
			return err
		}
	}
	grain := grainCheap
	if c.Tensor(0).DType().IsFloat() {
		grain = grainCostly
	}
	if o.Fmod {
		return runBinary(c, axisBroadcast{}, fmodLoops, grain)
	}
	return runBinary(c, axisBroadcast{}, modLoops, grain)
}

func remainderInt[T intNumber](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] % b[i]
	}
}

func modInt[T signedNumber](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		r := a[i] % b[i]
		if r != 0 && (r < 0) != (b[i] < 0) {
			r += b[i]
		}
		dst[i] = r
	}
}

func fmodFloat[T floatNumber](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = T(math.Mod(float64(a[i]), float64(b[i])))
	}
}

func modFloat[T floatNumber](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		y := float64(b[i])
		r := math.Mod(float64(a[i]), y)
		if r != 0 && (r < 0) != (y < 0) {
			r += y
		} else if r == 0 {
			r = math.Copysign(0, y)
		}
		dst[i] = T(r)
	}
}
