package tensor

import (
	"fmt"

	"github.com/onward-ml/onward/internal/fail"
)

// DType is the element type of a tensor. The numbers are those of ONNX's
// TensorProto.DataType (https://onnx.ai/onnx/api/classes.html#tensorproto).
type DType uint8

// The element types of ONNX.
const (
	Undefined          DType = 0
	TypeFloat32        DType = 1
	TypeUint8          DType = 2
	TypeInt8           DType = 3
	TypeUint16         DType = 4
	TypeInt16          DType = 5
	TypeInt32          DType = 6
	TypeInt64          DType = 7
	TypeString         DType = 8
	TypeBool           DType = 9
	TypeFloat16        DType = 10
	TypeFloat64        DType = 11
	TypeUint32         DType = 12
	TypeUint64         DType = 13
	TypeComplex64      DType = 14
	TypeComplex128     DType = 15
	TypeBFloat16       DType = 16
	TypeFloat8E4M3FN   DType = 17
	TypeFloat8E4M3FNUZ DType = 18
	TypeFloat8E5M2     DType = 19
	TypeFloat8E5M2FNUZ DType = 20
	TypeUint4          DType = 21
	TypeInt4           DType = 22
	TypeFloat4E2M1     DType = 23
	TypeFloat8E8M0     DType = 24
	TypeUint2          DType = 25
	TypeInt2           DType = 26
	TypeFloat6E2M3     DType = 27
	TypeFloat6E3M2     DType = 28

	numDTypes = 29
)

type dtypeInfo struct {
	name  string // ONNX's name, as in tensor(float)
	numpy string // the name of the NumPy or ml_dtypes type
	bits  int    // 0 for strings
}

var dtypes = [numDTypes]dtypeInfo{
	Undefined:          {"undefined", "", 0},
	TypeFloat32:        {"float", "float32", 32},
	TypeUint8:          {"uint8", "uint8", 8},
	TypeInt8:           {"int8", "int8", 8},
	TypeUint16:         {"uint16", "uint16", 16},
	TypeInt16:          {"int16", "int16", 16},
	TypeInt32:          {"int32", "int32", 32},
	TypeInt64:          {"int64", "int64", 64},
	TypeString:         {"string", "object", 0},
	TypeBool:           {"bool", "bool", 8},
	TypeFloat16:        {"float16", "float16", 16},
	TypeFloat64:        {"double", "float64", 64},
	TypeUint32:         {"uint32", "uint32", 32},
	TypeUint64:         {"uint64", "uint64", 64},
	TypeComplex64:      {"complex64", "complex64", 64},
	TypeComplex128:     {"complex128", "complex128", 128},
	TypeBFloat16:       {"bfloat16", "bfloat16", 16},
	TypeFloat8E4M3FN:   {"float8e4m3fn", "float8_e4m3fn", 8},
	TypeFloat8E4M3FNUZ: {"float8e4m3fnuz", "float8_e4m3fnuz", 8},
	TypeFloat8E5M2:     {"float8e5m2", "float8_e5m2", 8},
	TypeFloat8E5M2FNUZ: {"float8e5m2fnuz", "float8_e5m2fnuz", 8},
	TypeUint4:          {"uint4", "uint4", 4},
	TypeInt4:           {"int4", "int4", 4},
	TypeFloat4E2M1:     {"float4e2m1", "float4_e2m1fn", 4},
	TypeFloat8E8M0:     {"float8e8m0", "float8_e8m0fnu", 8},
	TypeUint2:          {"uint2", "uint2", 2},
	TypeInt2:           {"int2", "int2", 2},
	TypeFloat6E2M3:     {"float6e2m3", "float6_e2m3fn", 6},
	TypeFloat6E3M2:     {"float6e3m2", "float6_e3m2fn", 6},
}

// Valid reports whether d is one of ONNX's element types; Undefined is not.
func (d DType) Valid() bool { return d > Undefined && d < numDTypes }

// String returns ONNX's name of the type: "float", "double", "int64".
func (d DType) String() string {
	if d < numDTypes {
		return dtypes[d].name
	}
	return fmt.Sprintf("dtype(%d)", uint8(d))
}

// NumPy returns the name of the type in NumPy or its ml_dtypes extension.
func (d DType) NumPy() string {
	if d < numDTypes {
		return dtypes[d].numpy
	}
	return ""
}

// Bits returns the width of one element: 2, 4 or 6 for packed types, 0 for
// strings and invalid types.
func (d DType) Bits() int {
	if d < numDTypes {
		return dtypes[d].bits
	}
	return 0
}

// Size returns the width of one element in bytes; 0 for strings and for the
// packed types.
func (d DType) Size() int { return d.Bits() / 8 }

// Packed reports whether several elements share a byte (the types of 2, 4 and
// 6 bits).
func (d DType) Packed() bool { return d.Bits() > 0 && d.Bits() < 8 }

// IsFloat reports whether d is a real floating-point type of any width.
func (d DType) IsFloat() bool {
	switch d {
	case TypeFloat16, TypeFloat32, TypeFloat64, TypeBFloat16, TypeFloat4E2M1, TypeFloat6E2M3, TypeFloat6E3M2:
		return true
	}
	return d.IsFloat8()
}

// IsFloat8 reports whether d is one of the 8-bit floating-point types.
func (d DType) IsFloat8() bool {
	switch d {
	case TypeFloat8E4M3FN, TypeFloat8E4M3FNUZ, TypeFloat8E5M2, TypeFloat8E5M2FNUZ, TypeFloat8E8M0:
		return true
	}
	return false
}

// IsInteger reports whether d is a signed or unsigned integer type of any width. Bool is not an
// integer type.
func (d DType) IsInteger() bool { return d.IsSigned() || d.IsUnsigned() }

// IsSigned reports whether d is a signed integer type.
func (d DType) IsSigned() bool {
	switch d {
	case TypeInt2, TypeInt4, TypeInt8, TypeInt16, TypeInt32, TypeInt64:
		return true
	}
	return false
}

// IsUnsigned reports whether d is an unsigned integer type.
func (d DType) IsUnsigned() bool {
	switch d {
	case TypeUint2, TypeUint4, TypeUint8, TypeUint16, TypeUint32, TypeUint64:
		return true
	}
	return false
}

// ParseDType returns the type with the given name, either ONNX's or NumPy's: "float", "float32",
// "int64", "bfloat16".
func ParseDType(name string) (DType, error) {
	for d := TypeFloat32; d < numDTypes; d++ {
		if dtypes[d].name == name || dtypes[d].numpy == name {
			return d, nil
		}
	}
	return Undefined, fail.Errorf("tensor: unknown element type %q", name)
}

// Float16 is an IEEE 754 binary16 number, held as its bits.
type Float16 uint16

// BFloat16 is a brain floating-point number, the upper half of an IEEE 754 binary32, held as its
// bits.
type BFloat16 uint16

// The 8-bit floating-point types of ONNX, held as their bits
// (https://onnx.ai/onnx/technical/float8.html).
type (
	Float8E4M3FN   uint8
	Float8E4M3FNUZ uint8
	Float8E5M2     uint8
	Float8E5M2FNUZ uint8
	Float8E8M0     uint8
)

// Element lists the Go types of ONNX elements. The packed types have no Go type: see [Tensor.Bytes]
// and [Unpack].
type Element interface {
	bool | int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 |
		float32 | float64 | complex64 | complex128 | string |
		Float16 | BFloat16 | Float8E4M3FN | Float8E4M3FNUZ | Float8E5M2 | Float8E5M2FNUZ | Float8E8M0
}

// DTypeOf returns the element type of T.
func DTypeOf[T Element]() DType { return dtypeOfPointer((*T)(nil)) }

// dtypeOfPointer returns the element type that p points to. It is a function of its own because
// DTypeOf is compiled for every type.
//
//go:noinline
func dtypeOfPointer(p any) DType {
	switch p.(type) {
	case *bool:
		return TypeBool
	case *int8:
		return TypeInt8
	case *int16:
		return TypeInt16
	case *int32:
		return TypeInt32
	case *int64:
		return TypeInt64
	case *uint8:
		return TypeUint8
	case *uint16:
		return TypeUint16
	case *uint32:
		return TypeUint32
	case *uint64:
		return TypeUint64
	case *float32:
		return TypeFloat32
	case *float64:
		return TypeFloat64
	case *complex64:
		return TypeComplex64
	case *complex128:
		return TypeComplex128
	case *string:
		return TypeString
	case *Float16:
		return TypeFloat16
	case *BFloat16:
		return TypeBFloat16
	case *Float8E4M3FN:
		return TypeFloat8E4M3FN
	case *Float8E4M3FNUZ:
		return TypeFloat8E4M3FNUZ
	case *Float8E5M2:
		return TypeFloat8E5M2
	case *Float8E5M2FNUZ:
		return TypeFloat8E5M2FNUZ
	case *Float8E8M0:
		return TypeFloat8E8M0
	}
	return Undefined
}
