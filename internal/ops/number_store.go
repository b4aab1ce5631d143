package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/tensor"
)

// numberOutputs lists the types that storeNumbers supports.
const numberOutputs = "@int @float"

// storeNumbers stores v as the elements of a tensor of any numeric type. Integers are truncated and
// saturate.
func storeNumbers(t *tensor.Tensor, v []float64) error {
	switch t.DType() {
	case tensor.TypeFloat64:
		copy(tensor.MustData[float64](t), v)
	case tensor.TypeFloat32:
		for i, x := range v {
			tensor.MustData[float32](t)[i] = float32(x)
		}
	case tensor.TypeFloat16:
		for i, x := range v {
			tensor.MustData[tensor.Float16](t)[i] = tensor.NewFloat16FromFloat64(x)
		}
	case tensor.TypeBFloat16:
		for i, x := range v {
			tensor.MustData[tensor.BFloat16](t)[i] = tensor.NewBFloat16FromFloat64(x)
		}
	case tensor.TypeInt8:
		storeInts[int8](t, v, math.MinInt8, math.MaxInt8)
	case tensor.TypeInt16:
		storeInts[int16](t, v, math.MinInt16, math.MaxInt16)
	case tensor.TypeInt32:
		storeInts[int32](t, v, math.MinInt32, math.MaxInt32)
	case tensor.TypeInt64:
		storeInts[int64](t, v, math.MinInt64, 1<<63-1024)
	case tensor.TypeUint8:
		storeInts[uint8](t, v, 0, math.MaxUint8)
	case tensor.TypeUint16:
		storeInts[uint16](t, v, 0, math.MaxUint16)
	case tensor.TypeUint32:
		storeInts[uint32](t, v, 0, math.MaxUint32)
	case tensor.TypeUint64:
		storeInts[uint64](t, v, 0, 1<<64-2048)
	default:
		return fail.Errorf("output is %s, want a number", t.DType())
	}
	return nil
}

func storeInts[T int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64](t *tensor.Tensor,
	v []float64, lo, hi float64) {
	d := memory.FromRaw[T](t.Bytes())
	for i, x := range v {
		if x != x {
			x = 0
		}
		d[i] = T(min(max(x, lo), hi))
	}
}
