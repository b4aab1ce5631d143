package tensor

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/onward-ml/onward/internal/fail"
)

// Value is a value of an ONNX graph: a *[Tensor], *[Sequence], *[Map], *[Optional] or *[Sparse].
type Value interface {
	// Type returns the value's type without its shape.
	Type() Type
	isValue()
}

func (*Tensor) isValue()   {}
func (*Sequence) isValue() {}
func (*Map) isValue()      {}
func (*Optional) isValue() {}
func (*Sparse) isValue()   {}

// IsNil reports whether a value is nil, or a nil pointer of one of the types of this package.
func IsNil(v Value) bool {
	switch v := v.(type) {
	case nil:
		return true
	case *Tensor:
		return v == nil
	case *Sequence:
		return v == nil
	case *Map:
		return v == nil
	case *Optional:
		return v == nil
	case *Sparse:
		return v == nil
	}
	return false
}

// Kind is the kind of a value's type.
type Kind uint8

// The kinds of values.
const (
	KindInvalid Kind = iota
	KindTensor
	KindSequence
	KindMap
	KindOptional
	KindSparse
)

// Type is the type of a value without its shape.
type Type struct {
	Kind Kind
	Elem DType // element type of tensors and sparse tensors, key type of maps
	Of   *Type // element type of sequences and optionals, value type of maps
}

// TensorType returns tensor(d).
func TensorType(d DType) Type { return Type{Kind: KindTensor, Elem: d} }

// SparseType returns sparse_tensor(d).
func SparseType(d DType) Type { return Type{Kind: KindSparse, Elem: d} }

// SequenceOf returns seq(t).
func SequenceOf(t Type) Type { return Type{Kind: KindSequence, Of: &t} }

// OptionalOf returns optional(t).
func OptionalOf(t Type) Type { return Type{Kind: KindOptional, Of: &t} }

// MapOf returns map(key,value).
func MapOf(key DType, value Type) Type { return Type{Kind: KindMap, Elem: key, Of: &value} }

// Equal reports whether t and u are the same type.
func (t Type) Equal(u Type) bool {
	if t.Kind != u.Kind || t.Elem != u.Elem || (t.Of == nil) != (u.Of == nil) {
		return false
	}
	return t.Of == nil || t.Of.Equal(*u.Of)
}

// String writes the type as ONNX does: tensor(float), seq(tensor(int64)),
// map(string,tensor(float)), optional(seq(tensor(float))).
func (t Type) String() string {
	of := "undefined"
	if t.Of != nil {
		of = t.Of.String()
	}
	switch t.Kind {
	case KindTensor:
		return "tensor(" + t.Elem.String() + ")"
	case KindSparse:
		return "sparse_tensor(" + t.Elem.String() + ")"
	case KindSequence:
		return "seq(" + of + ")"
	case KindOptional:
		return "optional(" + of + ")"
	case KindMap:
		return "map(" + t.Elem.String() + "," + of + ")"
	}
	return "undefined"
}

// Sequence is an ordered list of values of one type.
type Sequence struct {
	Elem  Type // type of the items; the zero Type if unknown and Items is empty
	Items []Value
}

// NewSequence returns a sequence of items, which must be of type elem.
func NewSequence(elem Type, items ...Value) (*Sequence, error) {
	for i, v := range items {
		if IsNil(v) || !v.Type().Equal(elem) {
			return nil, fail.Errorf("tensor: item %d of seq(%s) has type %s", i, elem, typeName(v))
		}
	}
	return &Sequence{Elem: elem, Items: items}, nil
}

// Type returns seq(elem).
func (s *Sequence) Type() Type { return SequenceOf(s.Elem) }

// String returns the type and the items: "seq(tensor(float))[float[2 3] float[1]]". It omits
// items after the eighth, and what follows about 1,000 characters.
func (s *Sequence) String() string { return summary(s) }

const (
	maxItems   = 8    // that String shows of a sequence
	maxSummary = 1000 // characters after which String shows no further items
)

// summary returns the text of String for a value that may be nested.
func summary(v Value) string {
	var b strings.Builder
	summarize(&b, v)
	return b.String()
}

func summarize(b *strings.Builder, v Value) {
	switch v := v.(type) {
	case *Sequence:
		fmt.Fprintf(b, "%s[", v.Type())
		for i, item := range v.Items {
			if i > 0 {
				b.WriteByte(' ')
			}
			if i == maxItems || b.Len() > maxSummary {
				fmt.Fprintf(b, "… %d items", len(v.Items))
				break
			}
			summarize(b, item)
		}
		b.WriteByte(']')
	case *Optional:
		fmt.Fprintf(b, "%s[", v.Type())
		if v.Value != nil {
			summarize(b, v.Value)
		}
		b.WriteByte(']')
	default:
		fmt.Fprintf(b, "%s", v)
	}
}

// Map is a dictionary. Keys is a 1-D tensor of integers or strings. Values is a 1-D tensor or a
// sequence with the values in the order of the keys.
type Map struct {
	Keys   *Tensor
	Values Value
}

// NewMap returns a map from keys to values.
func NewMap(keys *Tensor, values Value) (*Map, error) {
	if keys == nil || IsNil(values) {
		return nil, fail.Errorf("tensor: map has %s for keys and %s for values", typeName(keys), typeName(values))
	}
	if keys.Rank() != 1 || !(keys.dtype.IsInteger() && !keys.dtype.Packed() || keys.dtype == TypeString) {
		return nil, fail.Errorf("tensor: map keys are %s, want a 1-D tensor of integers or strings", keys)
	}
	n := -1
	switch v := values.(type) {
	case *Tensor:
		if v.Rank() == 1 {
			n = v.Len()
		}
	case *Sequence:
		n = len(v.Items)
	}
	if n != keys.Len() {
		return nil, fail.Errorf("tensor: map has %d keys, but values %s of length %d", keys.Len(), typeName(values), n)
	}
	return &Map{Keys: keys, Values: values}, nil
}

// Len returns the number of entries.
func (m *Map) Len() int {
	if m.Keys == nil {
		return 0
	}
	return m.Keys.Len()
}

// Type returns map(key,value). The zero Map has an undefined type.
func (m *Map) Type() Type {
	if m.Keys == nil || IsNil(m.Values) {
		return MapOf(Undefined, TensorType(Undefined))
	}
	switch v := m.Values.(type) {
	case *Sequence:
		return MapOf(m.Keys.dtype, v.Elem)
	default:
		return MapOf(m.Keys.dtype, v.Type())
	}
}

// String returns the type and the number of entries: "map(int64,tensor(float))[3]".
func (m *Map) String() string { return fmt.Sprintf("%s[%d]", m.Type(), m.Len()) }

// Optional is a value that may be absent. Value is nil if it is absent.
type Optional struct {
	Elem  Type
	Value Value
}

// Type returns optional(elem).
func (o *Optional) Type() Type { return OptionalOf(o.Elem) }

// String returns the type and the value: "optional(tensor(float))[float[2]]", or without it
// "optional(tensor(float))[]".
func (o *Optional) String() string { return summary(o) }

// Sparse is a tensor that stores its non-zero values and their int64 indices, ascending and
// without duplicates. Shape is that of the dense form. ONNX has the COO format only
// (https://onnx.ai/onnx/api/classes.html#sparsetensorproto).
type Sparse struct {
	Format SparseFormat
	// Values are [nnz]; in the block format [blocks, …], where the dimensions of a
	// block divide the last ones of the shape.
	Values *Tensor
	// Indices are linear indices [nnz] or coordinates [nnz, rank] for COO; the columns
	// [nnz] for CSR; [2, blocks] of block rows and block columns for the block format.
	Indices *Tensor
	Shape   []int
	// Outer is for CSR, [rows+1]: row r has the values from Outer[r] to Outer[r+1].
	Outer *Tensor
}

// Type returns sparse_tensor(elem). The zero Sparse has an undefined type.
func (s *Sparse) Type() Type {
	if s.Values == nil {
		return SparseType(Undefined)
	}
	return SparseType(s.Values.dtype)
}

// String returns the type, the dense shape and the number of values:
// "sparse_tensor(float)[3 4] with 2 values".
func (s *Sparse) String() string {
	n := 0
	if s.Values != nil {
		n = s.Values.Len()
	}
	return fmt.Sprintf("%s%v with %d values", s.Type(), s.Shape, n)
}

// NewSparse returns a sparse tensor in COO format. It fails if indices are out of range, not
// ascending or of the wrong shape.
func NewSparse(values, indices *Tensor, shape ...int) (*Sparse, error) {
	if values == nil || indices == nil {
		return nil, errors.New("tensor: values or indices of a sparse tensor are missing")
	}
	n, err := Elements(shape)
	if err != nil {
		return nil, err
	}
	if values.Rank() != 1 {
		return nil, fail.Errorf("tensor: values of a sparse tensor have rank %d, want 1", values.Rank())
	}
	nnz := values.Len()
	if indices.dtype != TypeInt64 {
		return nil, fail.Errorf("tensor: indices of a sparse tensor are %s, want int64", indices.dtype)
	}
	ix := MustData[int64](indices)
	linear := func(i int) (int, error) { return int(ix[i]), nil }
	switch {
	case indices.Rank() == 1 && len(ix) == nnz:
	case indices.Rank() == 2 && indices.shape[0] == nnz && indices.shape[1] == len(shape):
		linear = func(i int) (int, error) {
			p := 0
			for d, size := range shape {
				c := ix[i*len(shape)+d]
				if c < 0 || c >= int64(size) {
					return 0, fail.Errorf("tensor: sparse index %d has coordinate %d in dimension %d of size %d", i, c,
						d, size)
				}
				p = p*size + int(c)
			}
			return p, nil
		}
	default:
		return nil, fail.Errorf("tensor: indices of a sparse tensor have shape %v, want [%d] or [%d %d]", indices.shape,
			nnz, nnz, len(shape))
	}
	last := -1
	for i := range nnz {
		p, err := linear(i)
		if err != nil {
			return nil, err
		}
		if p < 0 || p >= n {
			return nil, fail.Errorf("tensor: sparse index %d is %d, outside of %d elements", i, p, n)
		}
		if p <= last {
			return nil, fail.Errorf("tensor: sparse index %d is %d after %d, want ascending order without duplicates",
				i, p, last)
		}
		last = p
	}
	return &Sparse{Values: values, Indices: indices, Shape: slices.Clone(shape)}, nil
}

// SizeOf returns the memory that a value takes in bytes, including the text of strings.
func SizeOf(v Value) int64 {
	const header, aligned, item = 80, 64, 16 // a tensor, the alignment of its data, an interface
	switch v := v.(type) {
	case *Tensor:
		if v == nil {
			return 0
		}
		n := int64(header + 8*len(v.shape) + len(v.data))
		if len(v.data) > 0 {
			n += aligned
		}
		for _, s := range v.strs {
			n += int64(stringHeader + len(s))
		}
		return n
	case *Sequence:
		n := int64(header)
		for _, it := range v.Items {
			n += item + SizeOf(it)
		}
		return n
	case *Map:
		return header + SizeOf(v.Keys) + SizeOf(v.Values)
	case *Optional:
		if v.Value == nil {
			return header
		}
		return header + SizeOf(v.Value)
	case *Sparse:
		return header + SizeOf(v.Values) + SizeOf(v.Indices) + SizeOf(v.Outer)
	}
	return 0
}

// Clone returns a deep copy of a value. Clone(nil) is nil.
func Clone(v Value) Value {
	switch v := v.(type) {
	case *Tensor:
		return v.Clone()
	case *Sequence:
		items := make([]Value, len(v.Items))
		for i, it := range v.Items {
			items[i] = Clone(it)
		}
		return &Sequence{Elem: v.Elem, Items: items}
	case *Map:
		return &Map{Keys: v.Keys.Clone(), Values: Clone(v.Values)}
	case *Optional:
		return &Optional{Elem: v.Elem, Value: Clone(v.Value)}
	case *Sparse:
		c := &Sparse{Format: v.Format, Values: v.Values.Clone(), Indices: v.Indices.Clone(),
			Shape: slices.Clone(v.Shape)}
		if v.Outer != nil {
			c.Outer = v.Outer.Clone()
		}
		return c
	}
	return nil
}

func typeName(v Value) string {
	if IsNil(v) {
		return "nothing"
	}
	return strings.TrimSpace(v.Type().String())
}
