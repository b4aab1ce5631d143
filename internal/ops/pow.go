package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/tensor"
)

// Pow raises the first input to the power of the second. The result has the type of the first
// input. Integers to integer powers are exact and wrap around; a negative power of an integer
// truncates to 0 unless the base is 1 or −1 (https://onnx.ai/onnx/operators/onnx__Pow.html).
type Pow struct{ elementwise.AxisBroadcast }

var _ = kit.Register(&kit.Def{Name: "Pow", Since: kit.Versions{1, 7, 12, 13, 15}, In: "X:T, Y:T1", Out: "Z:T",
	Types:       "T: int32 int64 @float; T1: @number",
	Elementwise: true, Vector: powVector, Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &Pow{elementwise.ReadAxisBroadcast(a, opset)}
	},
	Gradient: gradient.Derivatives(
		func(b *gradient.Builder, x, y, z, g string) string {
			return b.Op("Mul", b.Op("Mul", g, y), b.Op("Pow", x, b.Op("Sub", y, b.Filled(1, y))))
		},
		func(b *gradient.Builder, x, y, z, g string) string {
			return b.Op("Mul", b.Op("Mul", g, z), b.Op("Log", x))
		})})

var powLoops = elementwise.LoopsOf(elementwise.Loop2(powInt[int32]), elementwise.Loop2(powInt[int64]),
	fastPow(elementwise.Loop2Scalar(powFloat[float32])), elementwise.Loop2Scalar(powFloat[float64]))

// fastPow adds vector kernels for squares and cubes, and PowFloats for other powers.
func fastPow(l *elementwise.Loop) *elementwise.Loop {
	l.FastScalars = true
	l.Fast = func(dst []byte, in *[3][]byte) {
		y, a, b := memory.FromRaw[float32](dst), memory.FromRaw[float32](in[0]), memory.FromRaw[float32](in[1])
		if len(b) != 1 || len(a) != len(y) || b[0] != 2 && b[0] != 3 {
			powFloats(y, a, b)
			return
		}
		vec.MulF32(cpu.Active(), y, a, a)
		if b[0] == 3 {
			vec.MulF32(cpu.Active(), y, y, a)
		}
	}
	return l
}

// powVector returns the kernel of squares.
func powVector(op kit.Operator, in []*tensor.Tensor) kit.VecUnary {
	if _, ok := op.(*Pow); !ok || len(in) != 2 || in[1] == nil || in[1].Rank() > 0 {
		return nil
	}
	if y, err := tensor.Float64s(in[1]); err != nil || y[0] != 2 {
		return nil
	}
	return func(l cpu.Level, dst, x []float32) { vec.MulF32(l, dst, x, x) }
}

// Infer implements [ir.Operator].
func (o *Pow) Infer(c *ir.InferContext) error {
	return elementwise.InferBinary(c, o.AxisBroadcast, c.Elem(0), nil)
}

// Run implements [ir.Operator].
func (o *Pow) Run(c *ir.Call) error {
	x, y := c.Tensor(0), c.Tensor(1)
	if x.DType() == y.DType() {
		return elementwise.RunBinary(c, o.AxisBroadcast, powLoops, kit.GrainCostly)
	}
	// Compute in a type that can represent both, then convert to the type of the base.
	d := tensor.TypeFloat32
	switch {
	case x.DType().IsInteger() && y.DType().IsInteger():
		d = tensor.TypeInt64
	case x.DType().IsInteger() || x.DType() == tensor.TypeFloat64:
		d = tensor.TypeFloat64
	}
	shape, yShape, err := o.Shapes(x.Shape(), y.Shape())
	if err != nil {
		return err
	}
	out, err := c.Output(0, x.DType(), shape...)
	if err != nil {
		return err
	}
	base, err := kit.ToScratch(c, x, d)
	if err != nil {
		return err
	}
	exp, err := kit.ToScratch(c, y, d)
	if err != nil {
		return err
	}
	res := out
	if d != x.DType() {
		if res, err = kit.ScratchTensor(c, d, shape); err != nil {
			return err
		}
	}
	if err := elementwise.RunLoopInto(c, powLoops[d], kit.GrainCostly, res, []*tensor.Tensor{base, exp},
		[][]int{x.Shape(), yShape}); err != nil {
		return err
	}
	if res != out {
		return kit.ConvertInto(c, out, res, tensor.ConvertOptions{})
	}
	return nil
}

func powInt[T int32 | int64](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		x, n, r := a[i], b[i], T(1)
		if n < 0 {
			switch {
			case x == -1:
				n &= 1
			case x != 1:
				x, n = 0, 1
			default:
				n = 0
			}
		}
		for ; n > 0; n >>= 1 {
			if n&1 != 0 {
				r *= x
			}
			x *= x
		}
		dst[i] = r
	}
}

// powFloat stores a to the power of b. Small constant exponents are computed by multiplications.
func powFloat[T kit.FloatNumber](dst, a, b []T) {
	if len(b) == 1 && len(a) == len(dst) {
		switch y := b[0]; y {
		case 2:
			for i, x := range a {
				dst[i] = x * x
			}
			return
		case 3:
			for i, x := range a {
				dst[i] = x * x * x
			}
			return
		default:
			for i, x := range a {
				dst[i] = T(math.Pow(float64(x), float64(y)))
			}
			return
		}
	}
	if len(a) == 1 && len(b) == len(dst) {
		x := float64(a[0])
		for i, y := range b {
			dst[i] = T(math.Pow(x, float64(y)))
		}
		return
	}
	if len(a) == 1 {
		kit.RepeatOf(dst, T(math.Pow(float64(a[0]), float64(b[0]))))
		return
	}
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = T(math.Pow(float64(a[i]), float64(b[i])))
	}
}

// powFloats computes powers of a by b. Either may have one element, which is broadcast.
func powFloats(dst, a, b []float32) {
	l := cpu.Active()
	if len(b) == 1 && len(a) == len(dst) && b[0] == -1 { // 1/x, rounded once
		vec.ReciprocalF32(l, dst, a)
		return
	}
	var one [kit.LoopBlock]float32 // the broadcast element
	switch {
	case len(dst) == 1:
	case len(a) == 1:
		kit.RepeatOf(one[:min(len(one), len(dst))], a[0])
	case len(b) == 1:
		kit.RepeatOf(one[:min(len(one), len(dst))], b[0])
	}
	for lo := 0; lo < len(dst); lo += len(one) {
		hi := min(lo+len(one), len(dst))
		x, y := one[:], one[:]
		if len(a) == len(dst) {
			x = a[lo:hi]
		}
		if len(b) == len(dst) {
			y = b[lo:hi]
		}
		vec.PowF32(l, dst[lo:hi], x, y)
	}
}
