package tensor

import "fmt"

// Float4E2M1 is a 4-bit floating-point number of ONNX, held as its bits in the
// lower half of a byte (https://onnx.ai/onnx/technical/float4.html). Tensors
// hold two of them in a byte: see [UnpackUint] and [Pack].
type Float4E2M1 uint8

// PackedLen returns the bytes that n elements of the given width, 2 or 4 bits,
// take.
func PackedLen(n, bits int) int {
	per := 8 / bits
	return n/per + btoi(n%per != 0)
}

// UnpackUint expands len(dst) elements of 2 or 4 bits from src to one byte
// each, without regard to a sign. The first element lies in the lowest bits.
func UnpackUint(dst []uint8, src []byte, bits int) {
	src = src[:PackedLen(len(dst), bits)]
	per := 8 / bits
	whole := len(dst) / per
	if bits == 4 {
		d := dst[:2*whole]
		for i, b := range src[:whole] {
			d[2*i], d[2*i+1] = b&15, b>>4
		}
	} else {
		d := dst[:4*whole]
		for i, b := range src[:whole] {
			d[4*i], d[4*i+1], d[4*i+2], d[4*i+3] = b&3, b>>2&3, b>>4&3, b>>6
		}
	}
	mask := uint8(1)<<bits - 1
	for i := range dst[whole*per:] {
		dst[whole*per+i] = src[whole] >> (i * bits) & mask
	}
}

// UnpackInt expands len(dst) elements of 2 or 4 bits from src to one byte
// each with their sign. The first element lies in the lowest bits.
func UnpackInt(dst []int8, src []byte, bits int) {
	UnpackUint(AsBytes(dst), src, bits)
	sign := int8(1) << (bits - 1)
	for i, v := range dst {
		dst[i] = (v ^ sign) - sign
	}
}

// PackUint packs the low 2 or 4 bits of each byte of src into dst, the first
// element into the lowest bits, and pads the last byte with zeros. dst must
// hold [PackedLen](len(src), bits) bytes.
func PackUint(dst []byte, src []uint8, bits int) {
	dst = dst[:PackedLen(len(src), bits)]
	if bits == 4 {
		for len(src) >= 2 {
			dst[0] = src[0]&15 | src[1]<<4
			dst, src = dst[1:], src[2:]
		}
	} else {
		for len(src) >= 4 {
			dst[0] = src[0]&3 | src[1]&3<<2 | src[2]&3<<4 | src[3]<<6
			dst, src = dst[1:], src[4:]
		}
	}
	if len(src) > 0 {
		b, mask := uint8(0), uint8(1)<<bits-1
		for i, v := range src {
			b |= v & mask << (i * bits)
		}
		dst[0] = b
	}
}

// Unpack returns the elements of an int4, uint4, int2, uint2 or float4e2m1
// tensor one a byte. T must be int8 for the signed integers, uint8 for the
// unsigned ones and Float4E2M1 for float4e2m1.
func Unpack[T int8 | uint8 | Float4E2M1](t *Tensor) ([]T, error) {
	if !packsInto[T](t.dtype) {
		var z T
		return nil, fmt.Errorf("tensor: elements of %s do not unpack to %T", t.dtype, z)
	}
	out := make([]T, t.Len())
	switch s := any(out).(type) {
	case []int8:
		UnpackInt(s, t.data, t.dtype.Bits())
	default:
		UnpackUint(AsBytes(out), t.data, t.dtype.Bits())
	}
	return out, nil
}

// Pack returns a tensor of a 2- or 4-bit type of the elements of data, one a
// byte; T as in [Unpack]. The shape defaults to one dimension. It fails on an
// element that the type cannot hold.
func Pack[T int8 | uint8 | Float4E2M1](dtype DType, data []T, shape ...int) (*Tensor, error) {
	if !packsInto[T](dtype) {
		var z T
		return nil, fmt.Errorf("tensor: %T does not pack into %s", z, dtype)
	}
	if len(shape) == 0 && len(data) != 1 {
		shape = []int{len(data)}
	}
	if n, err := Elements(shape); err != nil {
		return nil, err
	} else if n != len(data) {
		return nil, fmt.Errorf("tensor: %d values for shape %v, which has %d elements", len(data), shape, n)
	}
	bits := dtype.Bits()
	lo, hi := 0, 1<<bits-1
	if dtype.IsSigned() {
		lo, hi = -1<<(bits-1), 1<<(bits-1)-1
	}
	for i, v := range data {
		if int(v) < lo || int(v) > hi {
			return nil, fmt.Errorf("tensor: element %d is %d, outside of %s, which holds %d to %d", i, int(v), dtype, lo, hi)
		}
	}
	t, err := Zeros(dtype, shape...)
	if err != nil {
		return nil, err
	}
	PackUint(t.data, AsBytes(data), bits)
	return t, nil
}

func packsInto[T int8 | uint8 | Float4E2M1](d DType) bool {
	var z T
	switch any(z).(type) {
	case int8:
		return d.Packed() && d.IsSigned()
	case uint8:
		return d.Packed() && d.IsUnsigned()
	}
	return d == TypeFloat4E2M1
}
