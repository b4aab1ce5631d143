package onnx

import (
	"errors"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/tensor"
)

// ValueType returns the type of the values of type t, without shapes. It fails for opaque types and
// for types without a variant.
func (t *Type) ValueType() (tensor.Type, error) {
	var none tensor.Type
	switch {
	case t == nil:
		return none, errors.New("type is missing")
	case t.Tensor != nil:
		d, err := t.Tensor.ElemType.dtype()
		return tensor.TensorType(d), err
	case t.SparseTensor != nil:
		d, err := t.SparseTensor.ElemType.dtype()
		return tensor.SparseType(d), err
	case t.Sequence != nil:
		e, err := t.Sequence.Elem.ValueType()
		if err != nil {
			return none, fail.Errorf("sequence element: %w", err)
		}
		return tensor.SequenceOf(e), nil
	case t.Optional != nil:
		e, err := t.Optional.Elem.ValueType()
		if err != nil {
			return none, fail.Errorf("optional element: %w", err)
		}
		return tensor.OptionalOf(e), nil
	case t.Map != nil:
		k, err := t.Map.Key.dtype()
		if err != nil {
			return none, fail.Errorf("map key: %w", err)
		}
		e, err := t.Map.Value.ValueType()
		if err != nil {
			return none, fail.Errorf("map value: %w", err)
		}
		return tensor.MapOf(k, e), nil
	case t.Opaque != nil:
		return none, fail.Errorf("opaque type %q of domain %q is not supported", t.Opaque.Name, t.Opaque.Domain)
	}
	return none, errors.New("type has no variant")
}

// NewType returns the TypeProto of a value type, without shapes.
func NewType(t tensor.Type) *Type {
	switch t.Kind {
	case tensor.KindTensor:
		return &Type{Tensor: &TensorType{ElemType: DataType(t.Elem)}}
	case tensor.KindSparse:
		return &Type{SparseTensor: &TensorType{ElemType: DataType(t.Elem)}}
	case tensor.KindSequence:
		return &Type{Sequence: &SequenceType{Elem: newElem(t.Of)}}
	case tensor.KindOptional:
		return &Type{Optional: &OptionalType{Elem: newElem(t.Of)}}
	case tensor.KindMap:
		return &Type{Map: &MapType{Key: DataType(t.Elem), Value: newElem(t.Of)}}
	}
	return &Type{}
}

func newElem(t *tensor.Type) *Type {
	if t == nil {
		return nil
	}
	return NewType(*t)
}

// UnmarshalValue parses a value of type t from the message for that type: TensorProto,
// SparseTensorProto, SequenceProto, MapProto or OptionalProto. The ONNX backend suite stores inputs
// and outputs this way, with the types of the graph.
func UnmarshalValue(data []byte, t *Type, read *ReadOptions, opts *DecodeOptions) (tensor.Value, error) {
	switch {
	case t == nil:
		return nil, errors.New("type is missing")
	case t.Tensor != nil:
		return decoded(UnmarshalTensor(data, read))(func(p *Tensor) (tensor.Value, error) {
			return value(p.Decode(opts))
		})
	case t.SparseTensor != nil:
		return decoded(UnmarshalSparseTensor(data, read))(func(p *SparseTensor) (tensor.Value, error) {
			return value(p.Decode(opts))
		})
	case t.Sequence != nil:
		return decoded(unmarshalSequence(data, read))(func(p *Sequence) (tensor.Value, error) {
			return value(p.Decode(t, opts))
		})
	case t.Map != nil:
		return decoded(unmarshalMap(data, read))(func(p *Map) (tensor.Value, error) { return value(p.Decode(t, opts)) })
	case t.Optional != nil:
		return decoded(unmarshalOptional(data, read))(func(p *Optional) (tensor.Value, error) {
			return value(p.Decode(t, opts))
		})
	}
	_, err := t.ValueType()
	return nil, err
}

// value returns nil, not an interface with a nil pointer, on error.
func value[T tensor.Value](v T, err error) (tensor.Value, error) {
	if err != nil {
		return nil, err
	}
	return v, nil
}

func decoded[T any](p *T, err error) func(func(*T) (tensor.Value, error)) (tensor.Value, error) {
	return func(decode func(*T) (tensor.Value, error)) (tensor.Value, error) {
		if err != nil {
			return nil, err
		}
		return decode(p)
	}
}

// Decode returns the sparse tensor. It fails if indices are out of range, unsorted or duplicate.
func (s *SparseTensor) Decode(opts *DecodeOptions) (*tensor.Sparse, error) {
	if s.Values == nil {
		return nil, errors.New("sparse tensor has no values")
	}
	values, err := s.Values.Decode(opts)
	if err != nil {
		return nil, fail.Errorf("values of sparse tensor: %w", err)
	}
	shape := make([]int, len(s.Dims))
	for i, d := range s.Dims {
		if shape[i] = int(d); int64(shape[i]) != d {
			return nil, &TensorError{s.Values.Name, fail.Errorf("dim %d exceeds the address space: %d", i, d)}
		}
	}
	var indices *tensor.Tensor
	if s.Indices != nil {
		indices, err = s.Indices.Decode(opts)
	} else { // without values, indices may be missing
		indices, err = tensor.New([]int64{}, 0)
	}
	if err != nil {
		return nil, fail.Errorf("indices of sparse tensor: %w", err)
	}
	sparse, err := tensor.NewSparse(values, indices, shape...)
	if err != nil {
		return nil, &TensorError{s.Values.Name, err}
	}
	return sparse, nil
}

// Decode returns the sequence. t is its type, which an empty sequence needs; otherwise it may be
// nil.
func (s *Sequence) Decode(t *Type, opts *DecodeOptions) (*tensor.Sequence, error) {
	var elem *Type
	if t != nil && t.Sequence != nil {
		elem = t.Sequence.Elem
	}
	items, err := s.items(elem, opts)
	if err != nil {
		return nil, fail.Errorf("sequence %q: %w", s.Name, err)
	}
	var typ tensor.Type
	if elem != nil {
		if typ, err = elem.ValueType(); err != nil {
			return nil, fail.Errorf("sequence %q: %w", s.Name, err)
		}
	} else if len(items) > 0 {
		typ = items[0].Type()
	}
	seq, err := tensor.NewSequence(typ, items...)
	if err != nil {
		return nil, fail.Errorf("sequence %q: %w", s.Name, err)
	}
	return seq, nil
}

func (s *Sequence) items(elem *Type, opts *DecodeOptions) ([]tensor.Value, error) {
	for _, u := range [...]struct {
		kind ElementKind
		n    int
		name string
	}{
		{KindTensor, len(s.Tensors), "tensor_values"}, {KindSparseTensor, len(s.SparseTensors), "sparse_tensor_values"},
		{KindSequence, len(s.Sequences), "sequence_values"}, {KindMap, len(s.Maps), "map_values"},
		{KindOptional, len(s.Optionals), "optional_values"},
	} {
		if u.n > 0 && u.kind != s.ElemType {
			return nil, fail.Errorf("elem_type is %d, but %s has %d values", s.ElemType, u.name, u.n)
		}
	}
	switch s.ElemType {
	case KindUndefined:
		return nil, nil
	case KindTensor:
		return items(s.Tensors, func(p *Tensor) (tensor.Value, error) { return value(p.Decode(opts)) })
	case KindSparseTensor:
		return items(s.SparseTensors, func(p *SparseTensor) (tensor.Value, error) { return value(p.Decode(opts)) })
	case KindSequence:
		return items(s.Sequences, func(p *Sequence) (tensor.Value, error) { return value(p.Decode(elem, opts)) })
	case KindMap:
		return items(s.Maps, func(p *Map) (tensor.Value, error) { return value(p.Decode(elem, opts)) })
	case KindOptional:
		return items(s.Optionals, func(p *Optional) (tensor.Value, error) { return value(p.Decode(elem, opts)) })
	}
	return nil, fail.Errorf("invalid elem_type %d", s.ElemType)
}

func items[T any](list []*T, decode func(*T) (tensor.Value, error)) ([]tensor.Value, error) {
	out := make([]tensor.Value, len(list))
	for i, p := range list {
		v, err := decode(p)
		if err != nil {
			return nil, fail.Errorf("item %d: %w", i, err)
		}
		out[i] = v
	}
	return out, nil
}

// Decode returns the map. Values that are tensors of rank 0 are joined into one tensor of rank 1. t
// is the type of the map, which an empty map needs; otherwise it may be nil.
func (m *Map) Decode(t *Type, opts *DecodeOptions) (*tensor.Map, error) {
	r, err := m.decode(t, opts)
	if err != nil {
		return nil, fail.Errorf("map %q: %w", m.Name, err)
	}
	return r, nil
}

func (m *Map) decode(t *Type, opts *DecodeOptions) (*tensor.Map, error) {
	if len(m.Keys) > 0 && len(m.StringKeys) > 0 {
		return nil, errors.New("should not contain more than one keys field")
	}
	d, err := m.KeyType.dtype()
	if err != nil {
		return nil, fail.Errorf("key_type: %w", err)
	}
	var keys *tensor.Tensor
	switch {
	case d == tensor.TypeString && len(m.Keys) == 0:
		keys, err = tensor.New(m.StringKeys, len(m.StringKeys))
	case d.IsInteger() && !d.Packed() && len(m.StringKeys) == 0:
		keys, err = intKeys(d, m.Keys)
	default:
		err = fail.Errorf("key_type is %s, with %d integer and %d string keys", m.KeyType, len(m.Keys),
			len(m.StringKeys))
	}
	if err != nil {
		return nil, err
	}
	var elem *Type
	if t != nil && t.Map != nil {
		elem = t.Map.Value
	}
	s := m.Values
	if s == nil {
		s = &Sequence{}
	}
	var seqType *Type
	if elem != nil {
		seqType = &Type{Sequence: &SequenceType{Elem: elem}}
	}
	values, err := s.Decode(seqType, opts)
	if err != nil {
		return nil, err
	}
	if flat := stack(values); flat != nil {
		return tensor.NewMap(keys, flat)
	}
	return tensor.NewMap(keys, values)
}

// intKeys returns the keys as a tensor of integer type d. It fails if a key is out of range.
func intKeys(d tensor.DType, keys []int64) (*tensor.Tensor, error) {
	for i, k := range keys {
		ok := d.Bits() == 64 // uint64 keys are stored as bits
		if !ok && d.IsUnsigned() {
			ok = k >= 0 && k < 1<<d.Bits()
		} else if !ok {
			ok = k >= -1<<(d.Bits()-1) && k < 1<<(d.Bits()-1)
		}
		if !ok {
			return nil, fail.Errorf("key %d is %d, out of the range of %s", i, k, d)
		}
	}
	out := memory.Aligned(len(keys) * d.Size())
	for i, k := range keys {
		for j := range d.Size() {
			out[i*d.Size()+j] = byte(k >> (8 * j))
		}
	}
	return tensor.FromBytes(d, out, len(keys))
}

// stack joins tensors of rank 0 and one type into a tensor of rank 1. It returns nil for other
// sequences.
func stack(s *tensor.Sequence) *tensor.Tensor {
	if len(s.Items) == 0 {
		return nil
	}
	var strs []string
	var data []byte
	for _, v := range s.Items {
		t, ok := v.(*tensor.Tensor)
		if !ok || t.Rank() != 0 || t.DType().Packed() {
			return nil
		}
		if t.DType() == tensor.TypeString {
			strs = append(strs, tensor.MustData[string](t)...)
		} else {
			data = append(data, t.Bytes()...)
		}
	}
	if strs != nil {
		return tensor.Must(tensor.New(strs, len(strs)))
	}
	aligned := memory.Aligned(len(data))
	copy(aligned, data)
	return tensor.Must(tensor.FromBytes(s.Elem.Elem, aligned, len(s.Items)))
}

// Decode returns the optional. t is its type, which an empty optional needs; otherwise it may be
// nil.
func (o *Optional) Decode(t *Type, opts *DecodeOptions) (*tensor.Optional, error) {
	r, err := o.decode(t, opts)
	if err != nil {
		return nil, fail.Errorf("optional %q: %w", o.Name, err)
	}
	return r, nil
}

func (o *Optional) decode(t *Type, opts *DecodeOptions) (r *tensor.Optional, err error) {
	var elem *Type
	if t != nil && t.Optional != nil {
		elem = t.Optional.Elem
	}
	r = &tensor.Optional{}
	switch {
	case o.ElemType == KindTensor && o.Tensor != nil:
		r.Value, err = value(o.Tensor.Decode(opts))
	case o.ElemType == KindSparseTensor && o.SparseTensor != nil:
		r.Value, err = value(o.SparseTensor.Decode(opts))
	case o.ElemType == KindSequence && o.Sequence != nil:
		r.Value, err = value(o.Sequence.Decode(elem, opts))
	case o.ElemType == KindMap && o.Map != nil:
		r.Value, err = value(o.Map.Decode(elem, opts))
	case o.ElemType == KindOptional && o.Optional != nil:
		r.Value, err = value(o.Optional.Decode(elem, opts))
	case o.ElemType < KindUndefined || o.ElemType > KindOptional:
		err = fail.Errorf("invalid elem_type %d", o.ElemType)
	}
	if err != nil {
		return nil, err
	}
	if elem != nil {
		if r.Elem, err = elem.ValueType(); err != nil {
			return nil, err
		}
		if r.Value != nil && !r.Value.Type().Equal(r.Elem) {
			return nil, fail.Errorf("holds %s, want %s", r.Value.Type(), r.Elem)
		}
	} else if r.Value != nil {
		r.Elem = r.Value.Type()
	}
	return r, nil
}

// MarshalValue returns the encoded message of a value. It is the inverse of [UnmarshalValue].
func MarshalValue(v tensor.Value) ([]byte, error) {
	switch v := v.(type) {
	case *tensor.Tensor:
		return FromTensor(v).Marshal()
	case *tensor.Sparse:
		return FromSparse(v).Marshal()
	case *tensor.Sequence:
		return fromSequence(v).Marshal()
	case *tensor.Map:
		return fromMap(v).Marshal()
	case *tensor.Optional:
		return fromOptional(v).Marshal()
	}
	return nil, fail.Errorf("unsupported value type %T", v)
}

// FromSparse returns the SparseTensorProto of s, which it aliases. It panics if s is in
// another format than COO and inconsistent.
func FromSparse(s *tensor.Sparse) *SparseTensor {
	s, err := s.COO()
	if err != nil {
		panic(err)
	}
	p := &SparseTensor{Values: FromTensor(s.Values), Indices: FromTensor(s.Indices)}
	for _, d := range s.Shape {
		p.Dims = append(p.Dims, int64(d))
	}
	return p
}

// fromSequence returns the SequenceProto of s, which it aliases.
func fromSequence(s *tensor.Sequence) *Sequence {
	p := &Sequence{ElemType: elementKind(s.Elem.Kind)}
	for _, v := range s.Items {
		switch v := v.(type) {
		case *tensor.Tensor:
			p.ElemType, p.Tensors = KindTensor, append(p.Tensors, FromTensor(v))
		case *tensor.Sparse:
			p.ElemType, p.SparseTensors = KindSparseTensor, append(p.SparseTensors, FromSparse(v))
		case *tensor.Sequence:
			p.ElemType, p.Sequences = KindSequence, append(p.Sequences, fromSequence(v))
		case *tensor.Map:
			p.ElemType, p.Maps = KindMap, append(p.Maps, fromMap(v))
		case *tensor.Optional:
			p.ElemType, p.Optionals = KindOptional, append(p.Optionals, fromOptional(v))
		}
	}
	return p
}

func elementKind(k tensor.Kind) ElementKind {
	switch k {
	case tensor.KindTensor:
		return KindTensor
	case tensor.KindSparse:
		return KindSparseTensor
	case tensor.KindSequence:
		return KindSequence
	case tensor.KindMap:
		return KindMap
	case tensor.KindOptional:
		return KindOptional
	}
	return KindUndefined
}

// fromMap returns the MapProto of m. Values in one tensor become tensors of rank 0.
func fromMap(m *tensor.Map) *Map {
	p := &Map{KeyType: DataType(m.Keys.DType())}
	if d := m.Keys.DType(); d == tensor.TypeString {
		p.StringKeys = tensor.MustData[string](m.Keys)
	} else {
		for b, w := m.Keys.Bytes(), d.Size(); len(b) > 0; b = b[w:] {
			var k int64
			for j := range w {
				k |= int64(b[j]) << (8 * j)
			}
			if d.IsSigned() {
				k = k << (64 - 8*w) >> (64 - 8*w)
			}
			p.Keys = append(p.Keys, k)
		}
	}
	switch v := m.Values.(type) {
	case *tensor.Sequence:
		p.Values = fromSequence(v)
	case *tensor.Tensor:
		p.Values = &Sequence{ElemType: KindTensor}
		for i := range v.Len() {
			e := &Tensor{DataType: DataType(v.DType())}
			if v.DType() == tensor.TypeString {
				e.StringData = tensor.MustData[string](v)[i : i+1]
			} else {
				w := v.DType().Size()
				e.RawData = v.Bytes()[i*w : (i+1)*w]
			}
			p.Values.Tensors = append(p.Values.Tensors, e)
		}
	}
	return p
}

// fromOptional returns the OptionalProto of o, which it aliases.
func fromOptional(o *tensor.Optional) *Optional {
	p := &Optional{ElemType: elementKind(o.Elem.Kind)}
	switch v := o.Value.(type) {
	case *tensor.Tensor:
		p.ElemType, p.Tensor = KindTensor, FromTensor(v)
	case *tensor.Sparse:
		p.ElemType, p.SparseTensor = KindSparseTensor, FromSparse(v)
	case *tensor.Sequence:
		p.ElemType, p.Sequence = KindSequence, fromSequence(v)
	case *tensor.Map:
		p.ElemType, p.Map = KindMap, fromMap(v)
	case *tensor.Optional:
		p.ElemType, p.Optional = KindOptional, fromOptional(v)
	}
	return p
}
