package ops

import (
	"errors"
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
)

// Mod returns the remainder of a division. If Fmod is set, it has the sign of the dividend, as C's
// fmod; otherwise that of the divisor, as Python's %. Before opset 28 ONNX requires Fmod for
// floating-point types; without it, they follow Python in every opset
// (https://onnx.ai/onnx/operators/onnx__Mod.html).
type Mod struct{ Fmod bool }

var _ = kit.Register(&kit.Def{Name: "Mod", Since: kit.Versions{10, 13, 28}, In: "A:T, B:T", Out: "C:T", Types: "T: @number",
	Elementwise: true, Build: func(a *kit.Attrs, opset int) kit.Operator {
		v := a.Int("fmod", 0)
		if v != 0 && v != 1 {
			return a.Fail(errors.New("attribute fmod must be 0 or 1"))
		}
		return &Mod{Fmod: v == 1}
	}})

var modLoops = kit.LoopsOf(
	kit.Loop2(modInt[int8]), kit.Loop2(modInt[int16]), kit.Loop2(modInt[int32]), kit.Loop2(modInt[int64]),
	kit.Loop2(remainderInt[uint8]), kit.Loop2(remainderInt[uint16]), kit.Loop2(remainderInt[uint32]), kit.Loop2(remainderInt[uint64]),
	kit.Loop2(modFloat[float32]), kit.Loop2(modFloat[float64]))

var fmodLoops = kit.LoopsOf(
	kit.Loop2(remainderInt[int8]), kit.Loop2(remainderInt[int16]), kit.Loop2(remainderInt[int32]), kit.Loop2(remainderInt[int64]),
	kit.Loop2(remainderInt[uint8]), kit.Loop2(remainderInt[uint16]), kit.Loop2(remainderInt[uint32]), kit.Loop2(remainderInt[uint64]),
	kit.Loop2(fmodFloat[float32]), kit.Loop2(fmodFloat[float64]))

// Infer implements [ir.Operator].
func (*Mod) Infer(c *ir.InferContext) error {
	return kit.InferBinary(c, kit.AxisBroadcast{}, c.Elem(0), nil)
}

// Run implements [ir.Operator].
func (o *Mod) Run(c *ir.Call) error {
	if c.Tensor(0).Len() > 0 {
		if err := kit.RefuseZeroDivisor(c.Tensor(1)); err != nil {
			return err
		}
	}
	grain := kit.GrainCheap
	if c.Tensor(0).DType().IsFloat() {
		grain = kit.GrainCostly
	}
	if o.Fmod {
		return kit.RunBinary(c, kit.AxisBroadcast{}, fmodLoops, grain)
	}
	return kit.RunBinary(c, kit.AxisBroadcast{}, modLoops, grain)
}

func remainderInt[T kit.IntNumber](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] % b[i]
	}
}

func modInt[T kit.SignedNumber](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		r := a[i] % b[i]
		if r != 0 && (r < 0) != (b[i] < 0) {
			r += b[i]
		}
		dst[i] = r
	}
}

func fmodFloat[T kit.FloatNumber](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = T(math.Mod(float64(a[i]), float64(b[i])))
	}
}

func modFloat[T kit.FloatNumber](dst, a, b []T) {
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
