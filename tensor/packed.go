package tensor

import "fmt"

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

// PackedLen returns the size in bytes of n packed elements of 2, 4 or 6 bits: ⌈n·bits/8⌉.
func PackedLen(n, bits int) int { return n/8*bits + (n%8*bits+7)/8 }

// UnpackUint unpacks len(dst) elements of 2, 4 or 6 bits from src to one byte each, zero-extended.
// The elements form a stream of bits that begins at the lowest bit of the first byte; four elements
// of 6 bits take three bytes.
func UnpackUint(dst []uint8, src []byte, bits int) {
	src = src[:PackedLen(len(dst), bits)]
	done := 0
	switch bits {
	case 2:
		done = len(dst) &^ 3
		d := dst[:done]
		for i, b := range src[:done/4] {
			d[4*i], d[4*i+1], d[4*i+2], d[4*i+3] = b&3, b>>2&3, b>>4&3, b>>6
		}
	case 4:
		done = len(dst) &^ 1
		d := dst[:done]
		for i, b := range src[:done/2] {
			d[2*i], d[2*i+1] = b&15, b>>4
		}
	case 6:
		done = len(dst) &^ 3
		for d, s := dst[:done], src; len(d) >= 4; d, s = d[4:], s[3:] {
			d[0], d[1], d[2], d[3] = s[0]&63, s[0]>>6|s[1]&15<<2, s[1]>>4|s[2]&3<<4, s[2]>>2
		}
	}
	for i := done; i < len(dst); i++ {
		dst[i] = packedAt(src, i, bits)
	}
}

// packedAt returns element i of a packed stream.
func packedAt(src []byte, i, bits int) uint8 {
	at, shift := i*bits/8, i*bits%8
	v := src[at] >> shift
	if shift+bits > 8 {
		v |= src[at+1] << (8 - shift)
	}
	return v & (1<<bits - 1)
}

// setPacked sets element i of a packed stream to the low bits of v.
func setPacked(dst []byte, i, bits int, v uint8) {
	at, shift, mask := i*bits/8, i*bits%8, uint8(1)<<bits-1
	v &= mask
	dst[at] = dst[at]&^(mask<<shift) | v<<shift
	if shift+bits > 8 {
		dst[at+1] = dst[at+1]&^(mask>>(8-shift)) | v>>(8-shift)
	}
}

// UnpackInt unpacks len(dst) elements of 2, 4 or 6 bits from src to one byte each, sign-extended.
func UnpackInt(dst []int8, src []byte, bits int) {
	UnpackUint(AsBytes(dst), src, bits)
	sign := int8(1) << (bits - 1)
	for i, v := range dst {
		dst[i] = (v ^ sign) - sign
	}
}

// PackUint packs the low 2, 4 or 6 bits of each byte of src into dst, in the layout of
// [UnpackUint], and pads the last byte with zeros. dst must hold [PackedLen](len(src), bits) bytes.
func PackUint(dst []byte, src []uint8, bits int) {
	dst = dst[:PackedLen(len(src), bits)]
	switch bits {
	case 2:
		for ; len(src) >= 4; dst, src = dst[1:], src[4:] {
			dst[0] = src[0]&3 | src[1]&3<<2 | src[2]&3<<4 | src[3]<<6
		}
	case 4:
		for ; len(src) >= 2; dst, src = dst[1:], src[2:] {
			dst[0] = src[0]&15 | src[1]<<4
		}
	case 6:
		for ; len(src) >= 4; dst, src = dst[3:], src[4:] {
			dst[0] = src[0]&63 | src[1]<<6
			dst[1] = src[1]>>2&15 | src[2]<<4
			dst[2] = src[2]>>4&3 | src[3]<<2
		}
	}
	clear(dst)
	for i, v := range src {
		setPacked(dst, i, bits, v)
	}
}

// Unpack returns the elements of a tensor of a packed type, one per byte. T must be int8 for signed
// integers, uint8 for unsigned integers, or the Go type of the same name for floating-point types.
func Unpack[T packable](t *Tensor) ([]T, error) {
	if !packsInto[T](t.dtype) {
		var z T
		return nil, fmt.Errorf("tensor: cannot unpack elements of %s to %T", t.dtype, z)
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

// Pack returns a tensor of a packed type with the elements of data, one per byte. T is as in
// [Unpack]. The shape defaults to one dimension. Pack fails if an element is out of range.
func Pack[T packable](dtype DType, data []T, shape ...int) (*Tensor, error) {
	if !packsInto[T](dtype) {
		var z T
		return nil, fmt.Errorf("tensor: cannot pack %T into %s", z, dtype)
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
			return nil, fmt.Errorf("tensor: element %d is %d, out of the range of %s, %d to %d", i, int(v), dtype, lo, hi)
		}
	}
	t, err := Zeros(dtype, shape...)
	if err != nil {
		return nil, err
	}
	PackUint(t.data, AsBytes(data), bits)
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
