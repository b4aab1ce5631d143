package serve

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"github.com/onward-ml/onward/serve/inference"
	"github.com/onward-ml/onward/tensor"
)

// datatypes lists the element types of the protocol: its name, ONNX's type, and the value in
// model configurations.
var datatypes = []struct {
	name   string
	dtype  tensor.DType
	config inference.DataType
}{
	{"BOOL", tensor.TypeBool, inference.DataType_TYPE_BOOL},
	{"UINT8", tensor.TypeUint8, inference.DataType_TYPE_UINT8},
	{"UINT16", tensor.TypeUint16, inference.DataType_TYPE_UINT16},
	{"UINT32", tensor.TypeUint32, inference.DataType_TYPE_UINT32},
	{"UINT64", tensor.TypeUint64, inference.DataType_TYPE_UINT64},
	{"INT8", tensor.TypeInt8, inference.DataType_TYPE_INT8},
	{"INT16", tensor.TypeInt16, inference.DataType_TYPE_INT16},
	{"INT32", tensor.TypeInt32, inference.DataType_TYPE_INT32},
	{"INT64", tensor.TypeInt64, inference.DataType_TYPE_INT64},
	{"FP16", tensor.TypeFloat16, inference.DataType_TYPE_FP16},
	{"FP32", tensor.TypeFloat32, inference.DataType_TYPE_FP32},
	{"FP64", tensor.TypeFloat64, inference.DataType_TYPE_FP64},
	{"BYTES", tensor.TypeString, inference.DataType_TYPE_STRING},
	{"BF16", tensor.TypeBFloat16, inference.DataType_TYPE_BF16},
}

// datatypeName returns the protocol's name of an element type, and "" if it has none.
func datatypeName(t tensor.DType) string {
	for _, d := range datatypes {
		if d.dtype == t {
			return d.name
		}
	}
	return ""
}

func parseDatatype(name string) (tensor.DType, error) {
	for _, d := range datatypes {
		if d.name == name {
			return d.dtype, nil
		}
	}
	return 0, fmt.Errorf(
		"unknown datatype %q, want BOOL, UINT8 to UINT64, INT8 to INT64, FP16, BF16, FP32, FP64 or BYTES", name)
}

func configType(t tensor.DType) inference.DataType {
	for _, d := range datatypes {
		if d.dtype == t {
			return d.config
		}
	}
	return inference.DataType_TYPE_INVALID
}

func fromConfigType(t inference.DataType) tensor.DType {
	for _, d := range datatypes {
		if d.config == t {
			return d.dtype
		}
	}
	return tensor.Undefined
}

// checkShape returns the number of elements of a shape from a request.
func checkShape(shape []int64) (dims []int, n int, err error) {
	if len(shape) > tensor.MaxRank {
		return nil, 0, fmt.Errorf("shape has %d dimensions, want at most %d", len(shape), tensor.MaxRank)
	}
	dims = make([]int, len(shape))
	for i, d := range shape {
		if d < 0 || int64(int(d)) != d {
			return nil, 0, fmt.Errorf("shape %v has dimension %d, want 0 or more", shape, d)
		}
		dims[i] = int(d)
	}
	n, err = tensor.Elements(dims)
	return dims, n, err
}

// decodeRaw returns a tensor over the bytes of the binary form: little-endian elements, or for
// strings the length of each in four bytes before it. Numbers that are not aligned are copied.
func decodeRaw(dtype tensor.DType, shape []int64, data []byte) (*tensor.Tensor, error) {
	dims, n, err := checkShape(shape)
	if err != nil {
		return nil, err
	}
	if dtype == tensor.TypeString {
		return decodeBytes(dims, n, data)
	}
	want, err := tensor.ByteLen(dtype, dims)
	if err != nil {
		return nil, err
	}
	if want != len(data) {
		return nil, fmt.Errorf("binary data has %d bytes, but shape %v of %s takes %d", len(data), shape,
			datatypeName(dtype), want)
	}
	if len(data) > 0 && uintptr(unsafe.Pointer(&data[0]))%uintptr(dtype.Size()) != 0 {
		data = append(alignedBytes(len(data))[:0], data...)
	}
	return tensor.FromBytes(dtype, data, dims...)
}

// alignedBytes returns n bytes that are aligned for every element type.
func alignedBytes(n int) []byte {
	words := make([]uint64, (n+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), n)
}

// rawCost returns about what decodeRaw allocates for the binary form of a tensor.
func rawCost(dtype tensor.DType, size int) int64 {
	if dtype == tensor.TypeString { // a string and its bytes, which can be as few as the length's four
		return 6 * int64(size)
	}
	return int64(size)
}

func decodeBytes(dims []int, n int, data []byte) (*tensor.Tensor, error) {
	if n > len(data)/4 { // before allocating: every element takes four bytes for its length
		return nil, fmt.Errorf("binary data has %d bytes, but %d BYTES elements take at least %d", len(data), n, 4*n)
	}
	elems := make([]string, n)
	off := 0
	for i := range elems {
		if len(data)-off < 4 {
			return nil, fmt.Errorf("binary data ends in the length of BYTES element %d of %d", i, n)
		}
		size := int64(binary.LittleEndian.Uint32(data[off:]))
		off += 4
		if size > int64(len(data)-off) {
			return nil, fmt.Errorf("BYTES element %d has length %d, but %d bytes remain", i, size, len(data)-off)
		}
		elems[i] = string(data[off : off+int(size)])
		off += int(size)
	}
	if off != len(data) {
		return nil, fmt.Errorf("binary data has %d bytes after the last of %d BYTES elements", len(data)-off, n)
	}
	return tensor.New(elems, dims...)
}

// encodeRaw returns the binary form of a tensor. It aliases the tensor, except for strings.
func encodeRaw(t *tensor.Tensor) []byte {
	if t.DType() != tensor.TypeString {
		return t.Bytes()
	}
	b := make([]byte, 0, rawSize(t))
	for _, s := range tensor.MustData[string](t) {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(s)))
		b = append(b, s...)
	}
	return b
}

// rawSize returns the bytes of the binary form of a tensor.
func rawSize(t *tensor.Tensor) (n int64) {
	if t.DType() != tensor.TypeString {
		return int64(len(t.Bytes()))
	}
	for _, s := range tensor.MustData[string](t) {
		n += 4 + int64(len(s))
	}
	return n
}

func shape64(shape []int) []int64 {
	s := make([]int64, len(shape))
	for i, d := range shape {
		s[i] = int64(d)
	}
	return s
}
