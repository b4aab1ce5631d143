package kit

import (
	"math"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/tensor"
)

// AnyInts returns integers from a tensor of any unpacked numeric type; fractions are truncated.
func AnyInts(t *tensor.Tensor) ([]int, error) {
	switch t.DType() {
	case tensor.TypeFloat16:
		return intsOfHalf(tensor.MustData[tensor.Float16](t)), nil
	case tensor.TypeBFloat16:
		return intsOfHalf(tensor.MustData[tensor.BFloat16](t)), nil
	case tensor.TypeFloat32:
		return intsOfFloat(tensor.MustData[float32](t)), nil
	case tensor.TypeFloat64:
		return intsOfFloat(tensor.MustData[float64](t)), nil
	case tensor.TypeInt8:
		return intsOf(tensor.MustData[int8](t)), nil
	case tensor.TypeInt16:
		return intsOf(tensor.MustData[int16](t)), nil
	case tensor.TypeInt32:
		return intsOf(tensor.MustData[int32](t)), nil
	case tensor.TypeInt64:
		return Ints(t), nil
	case tensor.TypeUint8:
		return intsOf(tensor.MustData[uint8](t)), nil
	case tensor.TypeUint16:
		return intsOf(tensor.MustData[uint16](t)), nil
	case tensor.TypeUint32:
		s := tensor.MustData[uint32](t)
		r := intsOf(s)
		for i, v := range s {
			if uint64(v) > math.MaxInt {
				r[i] = maxIndex
			}
		}
		return r, nil
	case tensor.TypeUint64:
		s := tensor.MustData[uint64](t)
		r := intsOf(s)
		for i, v := range s {
			if v > math.MaxInt {
				r[i] = maxIndex
			}
		}
		return r, nil
	}
	return nil, fail.Errorf("%s cannot be read as integers", t.DType())
}

// maxIndex and minIndex represent numbers that exceed all indices.
const (
	maxIndex = math.MaxInt / 2
	minIndex = -maxIndex - 1
)

func intsOf[T int8 | int16 | int32 | uint8 | uint16 | uint32 | uint64](s []T) []int {
	r := make([]int, len(s))
	for i, v := range s {
		r[i] = int(v)
	}
	return r
}

func intsOfFloat[T float32 | float64](s []T) []int {
	r := make([]int, len(s))
	for i, v := range s {
		switch {
		case v != v || v >= maxIndex:
			r[i] = maxIndex
		case v <= minIndex:
			r[i] = minIndex
		default:
			r[i] = int(v)
		}
	}
	return r
}

func intsOfHalf[T interface{ Float32() float32 }](s []T) []int {
	f := make([]float32, len(s))
	for i, v := range s {
		f[i] = v.Float32()
	}
	return intsOfFloat(f)
}
