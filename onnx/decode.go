package onnx

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"unsafe"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/tensor"
)

// TensorError is the error for a tensor that cannot be decoded.
type TensorError struct {
	Name string
	Err  error
}

// Error names the tensor and the cause.
func (e *TensorError) Error() string { return fmt.Sprintf("tensor %q: %v", e.Name, e.Err) }

// Unwrap returns the cause.
func (e *TensorError) Unwrap() error { return e.Err }

// DecodeOptions are the options for decoding tensors. With nil or the zero value, external data is
// refused.
type DecodeOptions struct {
	// External gives access to external data; nil refuses it. See [Model.External].
	External *External
	// Copy allocates memory for the result, aligned to 64 bytes. Otherwise the result aliases the
	// raw data if that is aligned for the element type. Small tensors of mapped models are always
	// copied.
	Copy bool
	// MaxBytes limits the size of one decoded tensor. 0 means no limit, except that external data
	// may take half of the machine's memory if Reserve is nil.
	MaxBytes int64
	// Reserve is called before memory for elements is allocated. If it fails, decoding returns its
	// error. nil: no limit.
	Reserve func(bytes int64) error
	// Context ends the reading of external data with its error. nil: never.
	Context context.Context
}

// alloc returns n zero bytes, reserved before.
func (o *DecodeOptions) alloc(n int) ([]byte, error) {
	if o.Reserve != nil {
		if err := o.Reserve(int64(n)); err != nil {
			return nil, err
		}
	}
	return memory.Aligned(n), nil
}

// elements returns the product of dims. It fails for negative dims, on overflow, and if the rank
// exceeds tensor.MaxRank.
func elements(dims []int64) (int64, error) {
	if len(dims) > tensor.MaxRank {
		return 0, fail.Errorf("rank %d exceeds the limit of %d", len(dims), tensor.MaxRank)
	}
	n, zero, over := uint64(1), false, false
	for i, d := range dims {
		switch {
		case d < 0:
			return 0, fail.Errorf("dim %d is negative: %d", i, d)
		case d == 0:
			zero = true
		case !over:
			hi, lo := bits.Mul64(n, uint64(d))
			over = hi != 0 || lo > math.MaxInt64
			n = lo
		}
	}
	if zero {
		return 0, nil
	}
	if over {
		return 0, errors.New("product of dims overflows int64")
	}
	return int64(n), nil
}

// dtype returns the element type. It fails if t is not one of ONNX's.
func (t DataType) dtype() (tensor.DType, error) {
	if t == Undefined {
		return 0, errors.New("data_type is UNDEFINED")
	}
	if t < 0 || t > math.MaxUint8 || !tensor.DType(t).Valid() {
		return 0, fail.Errorf("unrecognized data_type %d", t)
	}
	return tensor.DType(t), nil
}

// String returns ONNX's name of the type: "float".
func (t DataType) String() string {
	if t >= 0 && t <= math.MaxUint8 {
		return tensor.DType(t).String()
	}
	return fmt.Sprintf("DataType(%d)", int32(t))
}

// byteLen returns the size of n elements in bytes, as raw data.
func (t DataType) byteLen(n int64) (int64, error) {
	d, err := t.dtype()
	if err != nil {
		return 0, err
	}
	if d == tensor.TypeString {
		return 0, errors.New("strings cannot be raw data")
	}
	hi, lo := bits.Mul64(uint64(n), uint64(d.Bits()))
	if hi != 0 || lo > math.MaxInt64-7 {
		return 0, fail.Errorf("the size of %d elements of type %s in bytes overflows", n, t)
	}
	return int64((lo + 7) / 8), nil
}

// storage returns the name of the typed field for elements of type t, and the number of its entries
// for n elements.
func (t DataType) storage(n int64) (field string, entries int64) {
	switch t {
	case Float:
		return "float_data", n
	case Complex64:
		return "float_data", 2 * n
	case Double:
		return "double_data", n
	case Complex128:
		return "double_data", 2 * n
	case Int64:
		return "int64_data", n
	case Uint32, Uint64:
		return "uint64_data", n
	case String:
		return "string_data", n
	case Uint4, Int4, Float4E2M1:
		return "int32_data", n/2 + n%2
	case Uint2, Int2:
		return "int32_data", n/4 + min(1, n%4)
	}
	return "int32_data", n
}

// dataField returns the name and length of the data field that is set, and the number of data
// fields that are set. Empty fields count as not set.
func (t *Tensor) dataField() (name string, entries int64, used int) {
	for _, f := range [...]struct {
		name string
		n    int
	}{
		{"float_data", len(t.FloatData)}, {"int32_data", len(t.Int32Data)}, {"string_data", len(t.StringData)},
		{"int64_data", len(t.Int64Data)}, {"raw_data", len(t.RawData)}, {"double_data", len(t.DoubleData)},
		{"uint64_data", len(t.Uint64Data)},
	} {
		if f.n > 0 {
			name, entries = f.name, int64(f.n)
			used++
		}
	}
	return name, entries, used
}

// validate checks a tensor, except the contents of its external file, and returns the number of
// elements. Its errors do not name the tensor.
func (t *Tensor) validate() (int64, error) {
	if _, err := t.DataType.dtype(); err != nil {
		return 0, err
	}
	n, err := elements(t.Dims)
	if err != nil {
		return 0, err
	}
	if t.Segment != nil {
		return 0, errors.New("segments are not supported")
	}
	var size int64
	if t.DataType != String {
		if size, err = t.DataType.byteLen(n); err != nil {
			return 0, err
		}
	}
	name, entries, used := t.dataField()
	if t.DataLocation == LocationExternal {
		if used > 0 {
			return 0, fail.Errorf("stored externally and should not have data field %s", name)
		}
		if t.DataType == String {
			return 0, errors.New("strings cannot be stored externally")
		}
		return n, nil
	}
	if t.DataLocation != LocationDefault {
		return 0, fail.Errorf("unknown data_location %d", t.DataLocation)
	}
	switch {
	case n == 0 && used > 0:
		return 0, fail.Errorf("0-element but contains data in %s", name)
	case n == 0:
		return 0, nil
	case used != 1:
		return 0, fail.Errorf("should contain one and only one value field, has %d", used)
	case name == "raw_data" && t.DataType == String:
		return 0, errors.New("STRING data should not be stored in raw_data field")
	case name == "raw_data":
		if entries != size {
			return 0, fail.Errorf("raw_data has %d bytes, %s with dims %v needs %d", entries, t.DataType, t.Dims, size)
		}
		return n, nil
	}
	want, wantEntries := t.DataType.storage(n)
	if name != want {
		return 0, fail.Errorf("values of data_type %s should be stored in field %s instead of %s",
			t.DataType, want, name)
	}
	if n > math.MaxInt64/2 || entries != wantEntries {
		return 0, fail.Errorf("%s has %d entries, %s with dims %v needs %d", name, entries, t.DataType,
			t.Dims, wantEntries)
	}
	if t.DataType == Float6E2M3 || t.DataType == Float6E3M2 {
		for i, v := range t.Int32Data {
			if v>>6 != 0 {
				return 0, fail.Errorf("entry %d of int32_data is %d, %s needs one element of 6 bits, 0 to 63",
					i, v, t.DataType)
			}
		}
	}
	return n, nil
}

// Decode returns the tensor's elements. Errors are of type *[TensorError].
//
// Elements are stored in one of these places; their number must match the dims exactly:
//
//   - raw data: little-endian, types of 2, 4 and 6 bits packed with the low bits first;
//   - the typed field of the element type. int32_data holds the bits of float16, bfloat16 and the
//     8- and 6-bit floats, and one byte of packed 4- or 2-bit elements per entry;
//   - an external file.
//
// Bools become 0 or 1, and the unused bits of the last packed byte 0. Segments are refused.
func (t *Tensor) Decode(opts *DecodeOptions) (*tensor.Tensor, error) {
	if opts == nil {
		opts = &DecodeOptions{}
	}
	r, err := t.decode(opts)
	if err != nil {
		return nil, &TensorError{t.Name, err}
	}
	return r, nil
}

func (t *Tensor) decode(opts *DecodeOptions) (*tensor.Tensor, error) {
	n, err := t.validate()
	if err != nil {
		return nil, err
	}
	shape := make([]int, len(t.Dims))
	for i, d := range t.Dims {
		if shape[i] = int(d); int64(shape[i]) != d {
			return nil, fail.Errorf("dim %d exceeds the address space: %d", i, d)
		}
	}
	if t.DataType == String {
		s := t.StringData
		if opts.Copy {
			s = slices.Clone(s)
			for i := range s {
				s[i] = string([]byte(s[i]))
			}
		}
		if s == nil {
			s = []string{}
		}
		if len(shape) == 0 { // tensor.New makes a scalar of one value without a shape
			return tensor.New(s)
		}
		return tensor.New(s, shape...)
	}
	size, err := t.DataType.byteLen(n)
	if err != nil {
		return nil, err
	}
	if int64(int(size)) != size {
		return nil, fail.Errorf("%d bytes exceed the address space", size)
	}
	if opts.MaxBytes > 0 && size > opts.MaxBytes {
		return nil, fail.Errorf("%w: it takes %d bytes, the limit is %d", ErrTooLarge, size, opts.MaxBytes)
	}
	d := tensor.DType(t.DataType)
	var data []byte
	switch {
	case n == 0:
		data = memory.Aligned(0)
	case t.DataLocation == LocationExternal:
		var owned bool
		if data, owned, err = opts.External.data(t, size, opts); err == nil {
			err = guardMapped(func() error {
				data, err = normalize(d, n, data, owned, opts)
				data = opts.External.alias(data)
				return err
			})
		}
	case len(t.RawData) > 0:
		err = guardMapped(func() (err error) {
			owned := opts.Copy || !aligned(t.RawData, d) || opts.External.small(len(t.RawData))
			if data = t.RawData; owned {
				if data, err = opts.alloc(len(t.RawData)); err != nil {
					return err
				}
				copy(data, t.RawData)
			}
			data, err = normalize(d, n, data, owned, opts)
			data = opts.External.alias(data)
			return err
		})
	default:
		var owned bool
		if data, owned, err = t.typedBytes(size, opts); err == nil {
			data, err = normalize(d, n, data, owned, opts)
		}
	}
	if err != nil {
		return nil, err
	}
	return tensor.FromBytes(d, data, shape...)
}

// aligned reports whether the address of b is aligned for elements of type d.
func aligned(b []byte, d tensor.DType) bool {
	size := max(1, d.Size())
	if d == tensor.TypeComplex64 || d == tensor.TypeComplex128 {
		size /= 2
	}
	return uintptr(unsafe.Pointer(unsafe.SliceData(b)))%uintptr(size) == 0
}

// normalize makes bools 0 or 1 and clears the unused bits of packed types. It copies data that is
// not owned before changing it.
func normalize(d tensor.DType, n int64, data []byte, owned bool, opts *DecodeOptions) ([]byte, error) {
	own := func() error {
		if owned {
			return nil
		}
		c, err := opts.alloc(len(data))
		if err == nil {
			copy(c, data)
			data, owned = c, true
		}
		return err
	}
	if d == tensor.TypeBool {
		for i, b := range data {
			if b > 1 {
				if err := own(); err != nil {
					return nil, err
				}
				data[i] = 1
			}
		}
		return data, nil
	}
	if d.Packed() && len(data) > 0 {
		if r := int(n%8) * d.Bits() % 8; r > 0 {
			if last := len(data) - 1; data[last]>>r != 0 {
				if err := own(); err != nil {
					return nil, err
				}
				data[last] &= 1<<r - 1
			}
		}
	}
	return data, nil
}

// aliases returns the typed field as bytes if they equal the raw form of the elements, else nil.
func (t *Tensor) aliases() []byte {
	if !littleEndian {
		return nil
	}
	switch t.DataType {
	case Float, Complex64:
		return memory.AsBytes(t.FloatData)
	case Double, Complex128:
		return memory.AsBytes(t.DoubleData)
	case Int32:
		return memory.AsBytes(t.Int32Data)
	case Int64:
		return memory.AsBytes(t.Int64Data)
	case Uint64:
		return memory.AsBytes(t.Uint64Data)
	}
	return nil
}

var littleEndian = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// typedBytes returns the raw form of the elements in the typed field, and whether it has memory of
// its own.
func (t *Tensor) typedBytes(size int64, opts *DecodeOptions) (out []byte, own bool, err error) {
	b := t.aliases()
	if b != nil && !opts.Copy {
		return b, false, nil
	}
	if out, err = opts.alloc(int(size)); err != nil {
		return nil, false, err
	}
	if b != nil {
		copy(out, b)
		return out, true, nil
	}
	le := binary.LittleEndian
	switch t.DataType {
	case Float, Complex64:
		for i, v := range t.FloatData {
			le.PutUint32(out[4*i:], math.Float32bits(v))
		}
	case Double, Complex128:
		for i, v := range t.DoubleData {
			le.PutUint64(out[8*i:], math.Float64bits(v))
		}
	case Int32:
		for i, v := range t.Int32Data {
			le.PutUint32(out[4*i:], uint32(v))
		}
	case Int64:
		for i, v := range t.Int64Data {
			le.PutUint64(out[8*i:], uint64(v))
		}
	case Uint32:
		for i, v := range t.Uint64Data {
			le.PutUint32(out[4*i:], uint32(v))
		}
	case Uint64:
		for i, v := range t.Uint64Data {
			le.PutUint64(out[8*i:], v)
		}
	case Int16, Uint16, Float16, BFloat16:
		for i, v := range t.Int32Data {
			le.PutUint16(out[2*i:], uint16(v))
		}
	case Bool:
		for i, v := range t.Int32Data {
			if v != 0 {
				out[i] = 1
			}
		}
	case Float6E2M3, Float6E3M2: // one element per entry, though raw data is packed
		codes := make([]byte, len(t.Int32Data))
		for i, v := range t.Int32Data {
			codes[i] = byte(v)
		}
		memory.PackUint(out, codes, 6)
	default: // 8-bit types, or one byte of packed elements per entry
		for i, v := range t.Int32Data {
			out[i] = byte(v)
		}
	}
	return out, true, nil
}

// FromTensor returns the TensorProto of t, with raw data or string data that aliases t.
func FromTensor(t *tensor.Tensor) *Tensor {
	p := &Tensor{DataType: DataType(t.DType()), Dims: make([]int64, t.Rank())}
	for i, d := range t.Shape() {
		p.Dims[i] = int64(d)
	}
	if t.DType() == tensor.TypeString {
		p.StringData = tensor.MustData[string](t)
		return p
	}
	if p.RawData = t.Bytes(); p.RawData == nil {
		p.RawData = []byte{}
	}
	return p
}
