package ops

import (
	"fmt"
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// numberIn is realIn for tensors of integers too, which it converts in scratch
// memory.
func numberIn[T realFloat](c *ir.Call, t *tensor.Tensor) ([]T, error) {
	if t.DType().IsFloat() {
		return realIn[T](c, t)
	}
	buf, err := ir.ScratchOf[T](c, t.Len())
	if err != nil {
		return nil, err
	}
	switch t.DType() {
	case tensor.TypeInt8:
		numberConvert[T, int8](buf, t)
	case tensor.TypeInt16:
		numberConvert[T, int16](buf, t)
	case tensor.TypeInt32:
		numberConvert[T, int32](buf, t)
	case tensor.TypeInt64:
		numberConvert[T, int64](buf, t)
	case tensor.TypeUint8:
		numberConvert[T, uint8](buf, t)
	case tensor.TypeUint16:
		numberConvert[T, uint16](buf, t)
	case tensor.TypeUint32:
		numberConvert[T, uint32](buf, t)
	case tensor.TypeUint64:
		numberConvert[T, uint64](buf, t)
	default:
		return nil, fmt.Errorf("element type %s cannot be interpolated, want a number", t.DType())
	}
	return buf, nil
}

type numberInt interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64
}

func numberConvert[T realFloat, I numberInt](dst []T, t *tensor.Tensor) {
	for i, v := range tensor.FromRaw[I](t.Bytes()) {
		dst[i] = T(v)
	}
}

// storeNumber stores an output whose type may be one of integers: they are
// rounded half to even, or towards 0 with cut, and saturate.
func (o realOutput[T]) storeNumber(cut bool) {
	switch o.t.DType() {
	case tensor.TypeInt8:
		numberStore[T, int8](o, cut, math.MinInt8, math.MaxInt8)
	case tensor.TypeInt16:
		numberStore[T, int16](o, cut, math.MinInt16, math.MaxInt16)
	case tensor.TypeInt32:
		numberStore[T, int32](o, cut, math.MinInt32, math.MaxInt32)
	case tensor.TypeInt64:
		numberStore[T, int64](o, cut, math.MinInt64, math.MaxInt64)
	case tensor.TypeUint8:
		numberStore[T, uint8](o, cut, 0, math.MaxUint8)
	case tensor.TypeUint16:
		numberStore[T, uint16](o, cut, 0, math.MaxUint16)
	case tensor.TypeUint32:
		numberStore[T, uint32](o, cut, 0, math.MaxUint32)
	case tensor.TypeUint64:
		numberStore[T, uint64](o, cut, 0, math.MaxUint64)
	default:
		o.store()
	}
}

func numberStore[T realFloat, I numberInt](o realOutput[T], cut bool, lo, hi I) {
	dst := tensor.FromRaw[I](o.t.Bytes())
	for i, v := range o.data {
		f := float64(v)
		if cut {
			f = math.Trunc(f)
		} else {
			f = math.RoundToEven(f)
		}
		switch {
		case f != f:
			dst[i] = 0
		case f <= float64(lo):
			dst[i] = lo
		case f >= float64(hi):
			dst[i] = hi
		default:
			dst[i] = I(f)
		}
	}
}
