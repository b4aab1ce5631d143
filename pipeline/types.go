package pipeline

import (
	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/tensor"
)

// asInput returns a tensor for an input, converted to its element type, such as the float16 of a
// model in half precision, or the int32 of a mask.
func asInput[T int64 | float32](in onward.NodeArg, data []T, shape ...int) (*tensor.Tensor, error) {
	t, err := tensor.New(data, shape...)
	if to := in.ElementType().Elem; err == nil && to != t.DType() {
		t, err = tensor.Convert(t, to, nil)
	}
	return t, err
}

// asFloats returns the elements of an output as float32.
func asFloats(t *tensor.Tensor) ([]float32, error) {
	if t.DType() != tensor.TypeFloat32 {
		var err error
		if t, err = tensor.Convert(t, tensor.TypeFloat32, nil); err != nil {
			return nil, err
		}
	}
	return tensor.Data[float32](t)
}
