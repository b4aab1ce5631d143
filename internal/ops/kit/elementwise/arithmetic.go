package elementwise

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// AddLoops are the loops of Add for each number type.
var AddLoops = SameBits(
	WithKernel2(Loop2Scalar(AddLoop[int8]), vec.AddU8), Loop2Scalar(AddLoop[int16]),
	WithKernel2(Loop2Scalar(AddLoop[int32]), vec.AddI32), WithKernel2(Loop2Scalar(AddLoop[int64]), vec.AddI64),
	WithBinary(Loop2Scalar(AddLoop[float32]), vec.AddF32, vec.AddScalarF32, vec.AddScalarF32),
	WithKernel2(Loop2Scalar(AddLoop[float64]), vec.AddF64))

// AddLoop stores a+b. An operand of one element is repeated.
func AddLoop[T kit.RealNumber](dst, a, b []T) {
	n := len(dst)
	switch {
	case len(a) == n && len(b) == n:
		a, b = a[:n], b[:n]
		for i := range dst {
			dst[i] = a[i] + b[i]
		}
	case len(b) == 1 && len(a) == n:
		y := b[0]
		a = a[:n]
		for i := range dst {
			dst[i] = a[i] + y
		}
	default:
		x := a[0]
		if len(b) == 1 {
			kit.RepeatOf(dst, x+b[0])
			return
		}
		b = b[:n]
		for i := range dst {
			dst[i] = x + b[i]
		}
	}
}

// DivLoop stores a/b. An operand of one element is repeated.
func DivLoop[T kit.RealNumber](dst, a, b []T) {
	n := len(dst)
	switch {
	case len(a) == n && len(b) == n:
		a, b = a[:n], b[:n]
		for i := range dst {
			dst[i] = a[i] / b[i]
		}
	case len(b) == 1 && len(a) == n:
		y := b[0]
		a = a[:n]
		for i := range dst {
			dst[i] = a[i] / y
		}
	default:
		x := a[0]
		if len(b) == 1 {
			kit.RepeatOf(dst, x/b[0])
			return
		}
		b = b[:n]
		for i := range dst {
			dst[i] = x / b[i]
		}
	}
}

// RunSum adds all inputs and divides the sum by divisor. Half-precision numbers are added in
// float32 and rounded once.
func RunSum(c *ir.Call, divisor float64) error {
	in, shapes, shape, err := variadicInputs(c)
	if err != nil {
		return err
	}
	out, err := c.Output(0, in[0].DType(), shape...)
	if err != nil {
		return err
	}
	sum := out
	if kit.IsHalf(out.DType()) {
		for i := range in {
			if in[i], err = kit.ToScratch(c, in[i], tensor.TypeFloat32); err != nil {
				return err
			}
		}
		if sum, err = kit.ScratchTensor(c, tensor.TypeFloat32, shape); err != nil {
			return err
		}
	}
	if err := foldInto(c, AddLoops, sum, in, shapes); err != nil {
		return err
	}
	if divisor != 1 {
		l := WithUnary(Loop1(func(dst, src []float32) { DivLoop(dst, src, []float32{float32(divisor)}) }),
			func(l cpu.Level, dst, x []float32) { vec.DivScalarF32(l, dst, x, float32(divisor)) })
		if sum.DType() == tensor.TypeFloat64 {
			l = Loop1(func(dst, src []float64) { DivLoop(dst, src, []float64{divisor}) })
		}
		if err := RunLoopInto(c, *l, kit.GrainCheap, sum, []*tensor.Tensor{sum}, [][]int{shape}); err != nil {
			return err
		}
	}
	if sum == out {
		return nil
	}
	return kit.ConvertInto(c, out, sum, tensor.ConvertOptions{})
}

// MulLoop stores a·b. An operand of one element is repeated.
func MulLoop[T kit.RealNumber](dst, a, b []T) {
	n := len(dst)
	switch {
	case len(a) == n && len(b) == n:
		a, b = a[:n], b[:n]
		for i := range dst {
			dst[i] = a[i] * b[i]
		}
	case len(b) == 1 && len(a) == n:
		y := b[0]
		a = a[:n]
		for i := range dst {
			dst[i] = a[i] * y
		}
	default:
		x := a[0]
		if len(b) == 1 {
			kit.RepeatOf(dst, x*b[0])
			return
		}
		b = b[:n]
		for i := range dst {
			dst[i] = x * b[i]
		}
	}
}
