package ops

import (
	"errors"
	"math"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
)

// Mod returns the remainder of a division. If Fmod is set, it has the sign of the dividend, as C's
// fmod; otherwise that of the divisor, as Python's %. Before opset 28 ONNX requires Fmod for
// floating-point types; without it, they follow Python in every opset
// (https://onnx.ai/onnx/operators/onnx__Mod.html).
type Mod struct{ Fmod bool }

var _ = kit.Register(&kit.Def{Name: "Mod", Since: kit.Versions{10, 13, 28}, In: "A:T, B:T", Out: "C:T",
	Types:       "T: @number",
	Elementwise: true, Build: func(a *kit.Attrs, opset int) kit.Operator {
		v := a.Int("fmod", 0)
		if v != 0 && v != 1 {
			return a.Fail(errors.New("attribute fmod must be 0 or 1"))
		}
		return &Mod{Fmod: v == 1}
	}})

var modLoops = elementwise.LoopsOf(
	elementwise.Loop2(modInt[int8]), elementwise.Loop2(modInt[int16]), elementwise.Loop2(modInt[int32]),
	elementwise.Loop2(modInt[int64]),
	elementwise.Loop2(remainderInt[uint8]), elementwise.Loop2(remainderInt[uint16]),
	elementwise.Loop2(remainderInt[uint32]), elementwise.Loop2(remainderInt[uint64]),
	withFast(elementwise.Loop2(modFloat[float32]), modQuick), elementwise.Loop2(modFloat[float64]))

var fmodLoops = elementwise.LoopsOf(
	elementwise.Loop2(remainderInt[int8]), elementwise.Loop2(remainderInt[int16]),
	elementwise.Loop2(remainderInt[int32]), elementwise.Loop2(remainderInt[int64]),
	elementwise.Loop2(remainderInt[uint8]), elementwise.Loop2(remainderInt[uint16]),
	elementwise.Loop2(remainderInt[uint32]), elementwise.Loop2(remainderInt[uint64]),
	withFast(elementwise.Loop2(fmodFloat[float32]), fmodQuick),
	elementwise.WithKernel2(elementwise.Loop2(fmodFloat[float64]), fmodDoubles))

func withFast(l *elementwise.Loop, f func(dst, a, b []float32)) *elementwise.Loop {
	l.Fast = func(dst []byte, in *[3][]byte) {
		f(memory.FromRaw[float32](dst), memory.FromRaw[float32](in[0]), memory.FromRaw[float32](in[1]))
	}
	return l
}

// Infer implements [ir.Operator].
func (*Mod) Infer(c *ir.InferContext) error {
	return elementwise.InferBinary(c, elementwise.AxisBroadcast{}, c.Elem(0), nil)
}

// Run implements [ir.Operator].
func (o *Mod) Run(c *ir.Call) error {
	if c.Tensor(0).Len() > 0 {
		if err := elementwise.RefuseZeroDivisor(c.Tensor(1)); err != nil {
			return err
		}
	}
	grain := kit.GrainCheap
	if c.Tensor(0).DType().IsFloat() {
		grain = kit.GrainCostly
	}
	if o.Fmod {
		return elementwise.RunBinary(c, elementwise.AxisBroadcast{}, fmodLoops, grain)
	}
	return elementwise.RunBinary(c, elementwise.AxisBroadcast{}, modLoops, grain)
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

// fmodQuick divides as float64. The truncated quotient is exact below 2²⁸, since a quotient that is
// not an integer differs from the nearest one by more than the rounding. So is its product with the
// divisor.
func fmodQuick(dst, a, b []float32) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		x, y := float64(a[i]), float64(b[i])
		q := x / y
		r := x - float64(int64(q))*y
		if !(math.Abs(q) < 1<<28) || r != r { // r is NaN if the divisor is infinite
			r = math.Mod(x, y)
		}
		dst[i] = float32(math.Copysign(r, x))
	}
}

// fmodDoubles computes the remainder by the rounded quotient, which is at most one too large: then
// the remainder is negative, and exact as the one by the integer below.
func fmodDoubles(_ cpu.Level, dst, a, b []float64) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		x, y := math.Abs(a[i]), math.Abs(b[i])
		q := x / y
		r := math.FMA(-float64(int64(q)), y, x)
		if r < 0 {
			r += y
		}
		if !(q < 1<<52) || r != r { // r is NaN if the divisor is infinite
			r = math.Mod(x, y)
		}
		dst[i] = math.Copysign(r, a[i])
	}
}

// modQuick adjusts the results of fmodQuick as modFloat does.
func modQuick(dst, a, b []float32) {
	var part [kit.LoopBlock]float32
	for lo := 0; lo < len(dst); lo += len(part) {
		n := min(len(dst)-lo, len(part))
		fmodQuick(part[:n], a[lo:], b[lo:])
		for i, r := range part[:n] {
			y := b[lo+i]
			if r != 0 && (r < 0) != (y < 0) {
				r = float32(float64(r) + float64(y))
			} else if r == 0 {
				r = float32(math.Copysign(0, float64(y)))
			}
			dst[lo+i] = r
		}
	}
}
