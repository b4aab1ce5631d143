package ir

import (
	"fmt"
	"strings"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/tensor"
)

// Type is the static type of a value: kind, element type and, for tensors, the known part of the
// shape.
type Type struct {
	Kind  tensor.Kind
	Elem  tensor.DType // element type of tensors and sparse tensors, key type of maps
	Shape []Dim        // of tensors and sparse tensors: nil if the rank is unknown, empty for a scalar
	Of    *Type        // element type of sequences and optionals, value type of maps
}

// TensorType returns the type of a tensor with known rank.
func TensorType(elem tensor.DType, shape ...Dim) Type {
	if shape == nil {
		shape = []Dim{}
	}
	return Type{Kind: tensor.KindTensor, Elem: elem, Shape: shape}
}

// UnrankedTensor returns the type of a tensor of unknown rank.
func UnrankedTensor(elem tensor.DType) Type { return Type{Kind: tensor.KindTensor, Elem: elem} }

// SequenceOf returns the type of a sequence of t.
func SequenceOf(t Type) Type { return Type{Kind: tensor.KindSequence, Of: &t} }

// OptionalOf returns the type of an optional t.
func OptionalOf(t Type) Type { return Type{Kind: tensor.KindOptional, Of: &t} }

// MapOf returns the type of a map from key to value.
func MapOf(key tensor.DType, value Type) Type {
	return Type{Kind: tensor.KindMap, Elem: key, Of: &value}
}

// FromTensorType converts t, with unknown shapes.
func FromTensorType(t tensor.Type) Type {
	r := Type{Kind: t.Kind, Elem: t.Elem}
	if t.Of != nil {
		of := FromTensorType(*t.Of)
		r.Of = &of
	}
	return r
}

// TypeOf returns the exact type of a value, shape included.
func TypeOf(v tensor.Value) Type {
	switch v := v.(type) {
	case *tensor.Tensor:
		return TensorType(v.DType(), Dims(v.Shape())...)
	case *tensor.Sparse:
		return Type{Kind: tensor.KindSparse, Elem: v.Values.DType(), Shape: Dims(v.Shape)}
	}
	return FromTensorType(v.Type())
}

// Known reports whether kind and element types are known.
func (t Type) Known() bool {
	switch t.Kind {
	case tensor.KindTensor, tensor.KindSparse:
		return t.Elem.Valid()
	case tensor.KindSequence, tensor.KindOptional, tensor.KindMap:
		return t.Of != nil && t.Of.Known()
	}
	return false
}

// Ranked reports whether the rank is known.
func (t Type) Ranked() bool { return t.Shape != nil }

// Base returns the type without shapes.
func (t Type) Base() tensor.Type {
	r := tensor.Type{Kind: t.Kind, Elem: t.Elem}
	if t.Of != nil {
		of := t.Of.Base()
		r.Of = &of
	}
	return r
}

// String returns the type with its shape: tensor(float)[N 3].
func (t Type) String() string {
	s := t.Base().String()
	if t.Shape != nil {
		s += fmt.Sprint(t.Shape)
	}
	return s
}

// Dims converts a concrete shape to known dimensions. The result is never nil.
func Dims(shape []int) []Dim {
	d := make([]Dim, len(shape))
	for i, n := range shape {
		d[i] = Known(n)
	}
	return d
}

// Ints returns the dimensions as numbers if all are known.
func Ints(shape []Dim) ([]int, bool) {
	if shape == nil {
		return nil, false
	}
	r := make([]int, len(shape))
	for i, d := range shape {
		n, ok := d.Value()
		if !ok {
			return nil, false
		}
		r[i] = n
	}
	return r, true
}

// UnknownDims returns rank unknown dimensions.
func UnknownDims(rank int) []Dim { return make([]Dim, rank) }

// Product returns the product of the dimensions.
func Product(shape []Dim) Dim {
	p := Known(1)
	for _, d := range shape {
		p = p.Mul(d)
	}
	return p
}

// MergeTypes combines two statements about one value and keeps the more precise parts of each. It
// fails if they contradict each other.
func MergeTypes(a, b Type) (Type, error) {
	if !a.Known() {
		return b, nil
	}
	if !b.Known() {
		return a, nil
	}
	if !a.Base().Equal(b.Base()) {
		return a, fail.Errorf("types %s and %s differ", a.Base(), b.Base())
	}
	r := a
	if a.Of != nil {
		of, err := MergeTypes(*a.Of, *b.Of)
		if err != nil {
			return a, err
		}
		r.Of = &of
		return r, nil
	}
	switch {
	case a.Shape == nil:
		r.Shape = b.Shape
	case b.Shape == nil:
	case len(a.Shape) != len(b.Shape):
		return a, fail.Errorf("ranks %d and %d differ", len(a.Shape), len(b.Shape))
	default:
		r.Shape = make([]Dim, len(a.Shape))
		for i := range a.Shape {
			d, err := Merge(a.Shape[i], b.Shape[i])
			if err != nil {
				return a, fail.Errorf("dimension %d: %w", i, err)
			}
			r.Shape[i] = d
		}
	}
	return r, nil
}

// Widen returns the most precise type that includes the values of both a and b: dimensions that
// differ become unknown. It fails if kinds or element types differ. If and Loop use it.
func Widen(a, b Type) (Type, error) {
	if !a.Base().Equal(b.Base()) {
		return a, fail.Errorf("types %s and %s differ", a.Base(), b.Base())
	}
	r := a
	if a.Of != nil {
		of, err := Widen(*a.Of, *b.Of)
		r.Of = &of
		return r, err
	}
	if a.Shape == nil || b.Shape == nil || len(a.Shape) != len(b.Shape) {
		r.Shape = nil
		return r, nil
	}
	r.Shape = make([]Dim, len(a.Shape))
	for i := range a.Shape {
		if a.Shape[i].Same(b.Shape[i]) {
			r.Shape[i] = a.Shape[i]
		}
	}
	return r, nil
}

// JoinTypes returns types for messages and as a key.
func JoinTypes(ts []Type) string {
	s := make([]string, len(ts))
	for i, t := range ts {
		s[i] = "absent"
		if t.Kind != tensor.KindInvalid {
			s[i] = t.String()
		}
	}
	return strings.Join(s, ", ")
}
