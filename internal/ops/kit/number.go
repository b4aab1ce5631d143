package kit

import (
	"math"
	"unsafe"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/tensor"
)

// IntsOf64 converts ints to int64s.
func IntsOf64(v []int) []int64 {
	r := make([]int64, len(v))
	for i, n := range v {
		r[i] = int64(n)
	}
	return r
}

// BoolToInt returns 1 for true and 0 for false.
func BoolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// NumberIn is RealIn, also for integers as float64, which it converts in scratch memory.
func NumberIn[T RealFloat](c *ir.Call, t *tensor.Tensor) ([]T, error) {
	if t.DType().IsFloat() {
		return RealIn[T](c, t)
	}
	if !t.DType().IsInteger() {
		return nil, fail.Errorf("element type %s cannot be interpolated, want a number", t.DType())
	}
	wide, err := ToScratch(c, t, tensor.TypeFloat64)
	if err != nil {
		return nil, err
	}
	v, ok := any(tensor.MustData[float64](wide)).([]T)
	if !ok {
		return nil, fail.Errorf("element type %s is interpolated in float64 only", t.DType())
	}
	return v, nil
}

type numberInt interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64
}

// StoreNumber stores an output. Integers, which are computed in float64, are rounded to nearest,
// ties to even, or toward 0 if cut is set, and saturate.
func (o RealOutput[T]) StoreNumber(cut bool) { StoreRounded(o.call, o.T, 0, o.Data, cut) }

// StoreRounded is [RealOutput.StoreNumber] for the elements of t from element at on. For
// floating-point numbers data must have all elements.
func StoreRounded[T RealFloat](c *ir.Call, t *tensor.Tensor, at int, data []T, cut bool) {
	o := RealOutput[T]{data, t, c}
	wide, ok := any(o).(RealOutput[float64])
	if !ok {
		o.Store()
		return
	}
	switch o.T.DType() {
	case tensor.TypeInt8:
		numberStore[int8](wide, at, cut, math.MinInt8, math.MaxInt8)
	case tensor.TypeInt16:
		numberStore[int16](wide, at, cut, math.MinInt16, math.MaxInt16)
	case tensor.TypeInt32:
		numberStore[int32](wide, at, cut, math.MinInt32, math.MaxInt32)
	case tensor.TypeInt64:
		numberStore[int64](wide, at, cut, math.MinInt64, math.MaxInt64)
	case tensor.TypeUint8:
		numberStore[uint8](wide, at, cut, 0, math.MaxUint8)
	case tensor.TypeUint16:
		numberStore[uint16](wide, at, cut, 0, math.MaxUint16)
	case tensor.TypeUint32:
		numberStore[uint32](wide, at, cut, 0, math.MaxUint32)
	case tensor.TypeUint64:
		numberStore[uint64](wide, at, cut, 0, math.MaxUint64)
	default:
		o.Store()
	}
}

func numberStore[I numberInt](o RealOutput[float64], at int, cut bool, lo, hi I) {
	dst := memory.FromRaw[I](o.T.Bytes())[at:]
	least, most := float64(lo), float64(hi)
	quick := !cut && unsafe.Sizeof(lo) <= 4
	o.parts(func(from, to int) {
		x, y := o.Data[from:to], dst[from:to]
		for i, f := range x {
			if quick && f > least && f < most {
				// The sum has no bits for fractions and is rounded as RoundToEven does.
				y[i] = I(int64(math.Float64bits(f + 3<<51)))
				continue
			}
			switch {
			case f != f:
				y[i] = 0
			case f <= least:
				y[i] = lo
			case f >= most:
				y[i] = hi
			default:
				y[i] = I(rounded(f, cut))
			}
		}
	})
}

// rounded rounds to nearest, ties to even. If cut is set, it adds only the rounding error of an
// interpolated integer, for conversion toward 0.
//
//go:noinline
func rounded(f float64, cut bool) float64 {
	if !cut {
		return math.RoundToEven(f)
	}
	return f + math.Copysign(min(max(math.Abs(f)*1e-9, 1e-9), 1e-3), f)
}

// TensorInt64 is the type of index outputs.
const TensorInt64 = tensor.TypeInt64

// OutInt64s stores a list of ints in output i.
func OutInt64s(c *ir.Call, i int, v []int, shape ...int) error {
	t, err := c.Output(i, TensorInt64, shape...)
	if err != nil {
		return err
	}
	out := tensor.MustData[int64](t)
	for k, n := range v {
		out[k] = int64(n)
	}
	return nil
}
