// Package tensor holds the values that ONNX models consume and produce:
// dense tensors of every ONNX element type, sequences, maps, optionals and
// sparse tensors, with exact conversions between element types, comparison,
// text and JSON forms, and readers and writers for .npy and .npz files.
package tensor

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"unsafe"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/memory"
)

const (
	// MaxRank is the largest rank that a tensor may have, ONNX's own limit.
	MaxRank = 1024

	// DefaultLimit is the limit in bytes of readers that are given a limit of 0: 2 GiB.
	DefaultLimit = 1 << 31
)

// Tensor is a dense row-major array of elements of one type. Rank 0 is a scalar. [Data] gives
// access to the contents, also for writing. A tensor that was passed to a running session must not
// change until the run ends.
type Tensor struct {
	dtype DType
	shape []int
	data  []byte   // little-endian elements; types of less than 8 bits are packed, the first element in the low bits
	strs  []string // for TypeString
}

// New returns a tensor over data, without copying it. Without a shape, one value makes a scalar and
// any other number of values a vector of length len(data). len(data) must match the shape.
func New[T Element](data []T, shape ...int) (*Tensor, error) {
	t, err := newOf(DTypeOf[T](), len(data), shape)
	if err != nil {
		return nil, err
	}
	if t.dtype == TypeString {
		t.strs = *(*[]string)(unsafe.Pointer(&data))
	} else {
		t.data = memory.AsBytes(data)
	}
	return t, nil
}

// newOf returns a tensor of n values whose contents are missing.
func newOf(d DType, n int, shape []int) (*Tensor, error) {
	if len(shape) == 0 && n != 1 {
		shape = []int{n}
	}
	want, err := Elements(shape)
	if err != nil {
		return nil, err
	}
	if n != want {
		return nil, fail.Errorf("tensor: %d values for shape %v, which has %d elements", n, shape, want)
	}
	return &Tensor{dtype: d, shape: slices.Clone(shape)}, nil
}

// Must returns t or panics with err; for tests and constant values.
func Must(t *Tensor, err error) *Tensor {
	if err != nil {
		panic(err)
	}
	return t
}

// Scalar returns a tensor of rank 0.
func Scalar[T Element](v T) *Tensor { return Must(New([]T{v})) }

// Zeros returns a tensor of zeros (empty strings, false) with 64-byte aligned
// contents.
func Zeros(dtype DType, shape ...int) (*Tensor, error) {
	n, err := ByteLen(dtype, shape)
	if err != nil {
		return nil, err
	}
	t := &Tensor{dtype: dtype, shape: slices.Clone(shape)}
	if dtype == TypeString {
		t.strs = make([]string, n/stringHeader)
	} else {
		t.data = memory.Aligned(n)
	}
	return t, nil
}

// FromBytes returns a tensor over data, without copying it. The bytes are little-endian row-major
// elements, packed for types of 2, 4 and 6 bits. The bytes of a bool tensor must be 0 or 1. Strings
// have no byte form.
func FromBytes(dtype DType, data []byte, shape ...int) (*Tensor, error) {
	if dtype == TypeString {
		return nil, fail.Errorf("tensor: strings have no byte form, use New")
	}
	n, err := ByteLen(dtype, shape)
	if err != nil {
		return nil, err
	}
	if n != len(data) {
		return nil, fail.Errorf("tensor: %d bytes for %s%v, which takes %d", len(data), dtype, shape, n)
	}
	if dtype == TypeBool {
		for i, b := range data {
			if b > 1 {
				return nil, fail.Errorf("tensor: byte %d of a bool tensor is %d, want 0 or 1", i, b)
			}
		}
	}
	return &Tensor{dtype: dtype, shape: slices.Clone(shape), data: data}, nil
}

// Reset makes t a tensor over data without allocating, so that an engine can reuse tensor headers
// between runs. Unlike [FromBytes] it does not check its arguments: len(data) must be
// ByteLen(dtype, shape).
func (t *Tensor) Reset(dtype DType, data []byte, shape []int) {
	t.dtype = dtype
	t.data = data
	t.strs = nil
	t.shape = append(t.shape[:0], shape...)
}

// DType returns the element type.
func (t *Tensor) DType() DType { return t.dtype }

// Shape returns the dimensions. The caller must not change them.
func (t *Tensor) Shape() []int { return t.shape }

// Rank returns the number of dimensions.
func (t *Tensor) Rank() int { return len(t.shape) }

// Dim returns dimension i.
func (t *Tensor) Dim(i int) int { return t.shape[i] }

// Len returns the number of elements.
func (t *Tensor) Len() int {
	n := 1
	for _, d := range t.shape {
		n *= d
	}
	return n
}

// Bytes returns the contents as little-endian elements, packed for types of 2, 4 and 6 bits. It
// returns nil for strings. The slice aliases the tensor.
func (t *Tensor) Bytes() []byte { return t.data }

// Data returns the elements of a tensor as a slice that aliases it. It fails if v is not a tensor
// or if T is not the Go type of its elements.
func Data[T Element](v Value) ([]T, error) {
	t, ok := v.(*Tensor)
	if !ok || t == nil {
		return nil, fail.Errorf("tensor: got %s, want a tensor", typeName(v))
	}
	if want := DTypeOf[T](); t.dtype != want {
		return nil, fail.Errorf("tensor: elements are %s, not %s", t.dtype, want)
	}
	return MustData[T](t), nil
}

// MustData returns the elements of t like [Data], but panics if T is not the Go
// type of its elements.
func MustData[T Element](t *Tensor) []T {
	d := DTypeOf[T]()
	if t.dtype != d {
		panicData(d, t.dtype)
	}
	if d == TypeString {
		return *(*[]T)(unsafe.Pointer(&t.strs))
	}
	return memory.FromRaw[T](t.data)
}

func panicData(want, have DType) {
	panic("tensor: MustData[" + want.String() + "] on " + have.String())
}

// Reshape returns a tensor of another shape, with as many elements, that shares the contents of t.
func (t *Tensor) Reshape(shape ...int) (*Tensor, error) {
	n, err := Elements(shape)
	if err != nil {
		return nil, err
	}
	if n != t.Len() {
		return nil, fail.Errorf("tensor: cannot reshape %v (%d elements) to %v (%d elements)", t.shape,
			t.Len(), shape, n)
	}
	return &Tensor{dtype: t.dtype, shape: slices.Clone(shape), data: t.data, strs: t.strs}, nil
}

// Clone returns a deep copy.
func (t *Tensor) Clone() *Tensor {
	c := &Tensor{dtype: t.dtype, shape: slices.Clone(t.shape)}
	if t.dtype == TypeString {
		c.strs = slices.Clone(t.strs)
	} else {
		c.data = memory.Uninitialized(len(t.data))
		copy(c.data, t.data)
	}
	return c
}

// Type returns the tensor's type: tensor(float).
func (t *Tensor) Type() Type { return TensorType(t.dtype) }

// String returns the element type and the shape: "float[2 3]".
func (t *Tensor) String() string { return fmt.Sprintf("%s%v", t.dtype, t.shape) }

// maxEmpty is the largest product of the other dimensions of an empty tensor: products of a part of
// its dimensions with those of other tensors must not overflow. It is 2²⁴ if an int has 32 bits.
const maxEmpty = 1 << (bits.UintSize / 4 * 3)

const stringHeader = int(unsafe.Sizeof(""))

// Elements returns the product of the dimensions. It fails if a dimension is negative, if the
// product overflows or if the rank exceeds [MaxRank]. It also fails if one is 0 and the others have
// a product above 2⁴⁸, or 2²⁴ if an int has 32 bits.
func Elements(shape []int) (int, error) {
	if len(shape) > MaxRank {
		return 0, fail.Errorf("tensor: rank %d is above the limit of %d", len(shape), MaxRank)
	}
	n, zero, over := 1, false, false
	for i, d := range shape {
		if d < 0 {
			return 0, fail.Errorf("tensor: dimension %d is negative: %d", i, d)
		}
		if d == 0 {
			zero = true
			continue
		}
		hi, lo := bits.Mul64(uint64(n), uint64(d))
		if hi != 0 || lo > math.MaxInt {
			over, lo = true, 1
		}
		n = int(lo)
	}
	switch {
	case zero && (over || n > maxEmpty):
		return 0, fail.Errorf("tensor: the dimensions of shape %v other than 0 have a product above the limit of %d",
			shape, maxEmpty)
	case zero:
		return 0, nil
	case over:
		return 0, fail.Errorf("tensor: the number of elements of shape %v overflows", shape)
	}
	return n, nil
}

// ByteLen returns the size of a tensor's contents in bytes. Packed types are rounded up to a whole
// byte. Strings count their headers only.
func ByteLen(dtype DType, shape []int) (int, error) {
	if !dtype.Valid() {
		return 0, fail.Errorf("tensor: invalid element type %d", uint8(dtype))
	}
	n, err := Elements(shape)
	if err != nil {
		return 0, err
	}
	b := dtype.Bits()
	if dtype == TypeString {
		b = 8 * stringHeader
	}
	hi, lo := bits.Mul64(uint64(n), uint64(b))
	if hi != 0 || lo > math.MaxInt64-7 || (lo+7)/8 > math.MaxInt {
		return 0, fail.Errorf("tensor: the size of %s%v in bytes overflows", dtype, shape)
	}
	return int((lo + 7) / 8), nil
}
