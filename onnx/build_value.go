package onnx

import (
	"encoding/binary"
	"math"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/tensor"
)

// NewTensorType returns a tensor type. Each dim is an int or int64, a string (symbolic) or nil
// (unknown).
func NewTensorType(t DataType, dims ...any) (*Type, error) {
	shape := &Shape{Dims: make([]Dim, len(dims))}
	for i, d := range dims {
		switch d := d.(type) {
		case nil:
		case int:
			shape.Dims[i] = Dim{Kind: DimValue, Value: int64(d)}
		case int64:
			shape.Dims[i] = Dim{Kind: DimValue, Value: d}
		case string:
			shape.Dims[i] = Dim{Kind: DimParam, Param: d}
		case Dim:
			shape.Dims[i] = d
		default:
			return nil, fail.Errorf("dim %d has type %T, want int, int64, string or nil", i, d)
		}
	}
	return &Type{Tensor: &TensorType{ElemType: t, Shape: shape}}, nil
}

// NewTensor returns a tensor with raw data from a Go slice or scalar of a [tensor.Element] type or
// int, which becomes int64. Without dims, a scalar becomes a tensor of rank 0 and a slice one of
// rank 1.
func NewTensor(name string, data any, dims ...int64) (*Tensor, error) {
	if t, ok := data.(*tensor.Tensor); ok {
		if len(dims) > 0 {
			return nil, fail.Errorf("tensor %q: a *tensor.Tensor has its own shape, want no dims", name)
		}
		p := FromTensor(t)
		p.Name = name
		return p, nil
	}
	var t *Tensor
	switch v := data.(type) {
	case int:
		t = fromScalar(int64(v))
	case []int:
		s := make([]int64, len(v))
		for i, x := range v {
			s[i] = int64(x)
		}
		t = fromSlice(s)
	case bool:
		t = fromScalar(v)
	case int8:
		t = fromScalar(v)
	case int16:
		t = fromScalar(v)
	case int32:
		t = fromScalar(v)
	case int64:
		t = fromScalar(v)
	case uint8:
		t = fromScalar(v)
	case uint16:
		t = fromScalar(v)
	case uint32:
		t = fromScalar(v)
	case uint64:
		t = fromScalar(v)
	case float32:
		t = fromScalar(v)
	case float64:
		t = fromScalar(v)
	case string:
		t = fromScalar(v)
	case []bool:
		t = fromSlice(v)
	case []int8:
		t = fromSlice(v)
	case []int16:
		t = fromSlice(v)
	case []int32:
		t = fromSlice(v)
	case []int64:
		t = fromSlice(v)
	case []uint8:
		t = fromSlice(v)
	case []uint16:
		t = fromSlice(v)
	case []uint32:
		t = fromSlice(v)
	case []uint64:
		t = fromSlice(v)
	case []float32:
		t = fromSlice(v)
	case []float64:
		t = fromSlice(v)
	case []complex64:
		t = fromSlice(v)
	case []complex128:
		t = fromSlice(v)
	case []string:
		t = fromSlice(v)
	case []tensor.Float16:
		t = fromSlice(v)
	case []tensor.BFloat16:
		t = fromSlice(v)
	case []tensor.Float8E4M3FN:
		t = fromSlice(v)
	case []tensor.Float8E4M3FNUZ:
		t = fromSlice(v)
	case []tensor.Float8E5M2:
		t = fromSlice(v)
	case []tensor.Float8E5M2FNUZ:
		t = fromSlice(v)
	case []tensor.Float8E8M0:
		t = fromSlice(v)
	default:
		return nil, fail.Errorf("tensor %q: unsupported Go type %T", name, data)
	}
	t.Name = name
	if len(dims) > 0 {
		have, _ := elements(t.Dims)
		want, err := elements(dims)
		if err != nil {
			return nil, fail.Errorf("tensor %q: %w", name, err)
		}
		if have != want {
			return nil, fail.Errorf("tensor %q: %d values, dims %v want %d", name, have, dims, want)
		}
		t.Dims = dims
	}
	return t, nil
}

func fromScalar[T tensor.Element](v T) *Tensor {
	t := fromSlice([]T{v})
	t.Dims = nil
	return t
}

func fromSlice[T tensor.Element](v []T) *Tensor {
	t := &Tensor{DataType: DataType(tensor.DTypeOf[T]()), Dims: []int64{int64(len(v))}}
	if s, ok := any(v).([]string); ok {
		t.StringData = s
		return t
	}
	// binary.Append writes every fixed-size type, bool as 0 and 1.
	raw, err := binary.Append(make([]byte, 0, binary.Size(v)), binary.LittleEndian, v)
	if err != nil {
		panic(err) // T has a fixed size
	}
	t.RawData = raw
	return t
}

// NewAttribute returns an attribute from a Go value: any integer type, bool or [DataType] (INT),
// float32 or float64 (FLOAT), string or []byte (STRING), *[Tensor], *[Graph] or *[GraphBuilder],
// *[SparseTensor], *[Type], slices of these, or [Ref]. An empty slice becomes an empty attribute of
// the slice's type.
func NewAttribute(name string, value any) (*Attribute, error) {
	a := &Attribute{Name: name}
	switch v := value.(type) {
	case int:
		a.Type, a.I = AttrInt, int64(v)
	case int32:
		a.Type, a.I = AttrInt, int64(v)
	case int64:
		a.Type, a.I = AttrInt, v
	case DataType:
		a.Type, a.I = AttrInt, int64(v)
	case tensor.DType:
		a.Type, a.I = AttrInt, int64(v)
	case bool:
		a.Type = AttrInt
		if v {
			a.I = 1
		}
	case float32:
		a.Type, a.F = AttrFloat, v
	case float64:
		a.Type, a.F = AttrFloat, float32(v)
		if math.IsInf(float64(a.F), 0) && !math.IsInf(v, 0) {
			return nil, fail.Errorf("attribute %q: %g overflows float32", name, v)
		}
	case string:
		a.Type, a.S = AttrString, v
	case []byte:
		a.Type, a.S = AttrString, string(v)
	case *Tensor:
		a.Type, a.T = AttrTensor, v
	case *tensor.Tensor:
		a.Type, a.T = AttrTensor, FromTensor(v)
	case *Graph:
		a.Type, a.G = AttrGraph, v
	case *GraphBuilder:
		g, err := v.Graph()
		if err != nil {
			return nil, fail.Errorf("attribute %q: %w", name, err)
		}
		a.Type, a.G = AttrGraph, g
	case *SparseTensor:
		a.Type, a.SparseTensor = AttrSparseTensor, v
	case *Type:
		a.Type, a.TP = AttrTypeProto, v
	case []int:
		a.Type = AttrInts
		for _, x := range v {
			a.Ints = append(a.Ints, int64(x))
		}
	case []int64:
		a.Type, a.Ints = AttrInts, v
	case []float32:
		a.Type, a.Floats = AttrFloats, v
	case []float64:
		a.Type = AttrFloats
		for _, x := range v {
			a.Floats = append(a.Floats, float32(x))
		}
	case []string:
		a.Type, a.Strings = AttrStrings, v
	case []*Tensor:
		a.Type, a.Tensors = AttrTensors, v
	case []*Graph:
		a.Type, a.Graphs = AttrGraphs, v
	case []*SparseTensor:
		a.Type, a.SparseTensors = AttrSparseTensors, v
	case []*Type:
		a.Type, a.TypeProtos = AttrTypeProtos, v
	case Ref:
		a.Type, a.RefAttrName = v.Type, v.Name
	default:
		return nil, fail.Errorf("attribute %q: unsupported Go type %T", name, value)
	}
	return a, nil
}
