package tensor

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/memory"
)

// The floating-point types of less than 8 bits, held in the lowest bits of a byte
// (https://onnx.ai/onnx/technical/float4.html and OCP Microscaling Formats 1.0, section 5.3).
// Tensors hold them packed: see [UnpackUint] and [Pack].
type (
	Float4E2M1 uint8
	Float6E2M3 uint8
	Float6E3M2 uint8
)

// packable lists the Go types of packed elements, one element per byte.
type packable interface {
	int8 | uint8 | Float4E2M1 | Float6E2M3 | Float6E3M2
}

// Unpack returns the elements of a tensor of a packed type, one per byte. T must be int8 for signed
// integers, uint8 for unsigned integers, or the Go type of the same name for floating-point types.
func Unpack[T packable](t *Tensor) ([]T, error) {
	if !packsInto[T](t.dtype) {
		var z T
		return nil, fail.Errorf("tensor: cannot unpack elements of %s to %T", t.dtype, z)
	}
	out := make([]T, t.Len())
	switch s := any(out).(type) {
	case []int8:
		memory.UnpackInt(s, t.data, t.dtype.Bits())
	default:
		memory.UnpackUint(memory.AsBytes(out), t.data, t.dtype.Bits())
	}
	return out, nil
}

// Pack returns a tensor of a packed type with the elements of data, one per byte. T is as in
// [Unpack]. The shape defaults to one dimension. Pack fails if an element is out of range.
func Pack[T packable](dtype DType, data []T, shape ...int) (*Tensor, error) {
	if !packsInto[T](dtype) {
		var z T
		return nil, fail.Errorf("tensor: cannot pack %T into %s", z, dtype)
	}
	if len(shape) == 0 && len(data) != 1 {
		shape = []int{len(data)}
	}
	if n, err := Elements(shape); err != nil {
		return nil, err
	} else if n != len(data) {
		return nil, fail.Errorf("tensor: %d values for shape %v, which has %d elements", len(data), shape, n)
	}
	bits := dtype.Bits()
	lo, hi := 0, 1<<bits-1
	if dtype.IsSigned() {
		lo, hi = -1<<(bits-1), 1<<(bits-1)-1
	}
	for i, v := range data {
		if int(v) < lo || int(v) > hi {
			return nil, fail.Errorf("tensor: element %d is %d, out of the range of %s, %d to %d", i,
				int(v), dtype, lo, hi)
		}
	}
	t, err := Zeros(dtype, shape...)
	if err != nil {
		return nil, err
	}
	memory.PackUint(t.data, memory.AsBytes(data), bits)
	return t, nil
}

func packsInto[T packable](d DType) bool {
	var z T
	switch any(z).(type) {
	case int8:
		return d.Packed() && d.IsSigned()
	case uint8:
		return d.Packed() && d.IsUnsigned()
	case Float6E2M3:
		return d == TypeFloat6E2M3
	case Float6E3M2:
		return d == TypeFloat6E3M2
	}
	return d == TypeFloat4E2M1
}
