package onnx

import (
	"errors"
	"fmt"
	"math/bits"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/tensor"
)

var attributeTypeNames = [...]string{
	"UNDEFINED", "FLOAT", "INT", "STRING", "TENSOR", "GRAPH", "FLOATS", "INTS", "STRINGS", "TENSORS", "GRAPHS",
	"SPARSE_TENSOR", "SPARSE_TENSORS", "TYPE_PROTO", "TYPE_PROTOS",
}

// String returns ONNX's name of the type: "INTS".
func (t AttributeType) String() string {
	if t >= 0 && int(t) < len(attributeTypeNames) {
		return attributeTypeNames[t]
	}
	return fmt.Sprintf("AttributeType(%d)", int32(t))
}

// valueFields returns a bit set of the attribute types whose value fields are set.
func (a *Attribute) valueFields() uint16 {
	f := a.fields
	for _, v := range [...]struct {
		t   AttributeType
		set bool
	}{
		{AttrFloat, a.F != 0}, {AttrInt, a.I != 0}, {AttrString, a.S != ""}, {AttrTensor, a.T != nil},
		{AttrGraph, a.G != nil}, {AttrSparseTensor, a.SparseTensor != nil}, {AttrTypeProto, a.TP != nil},
		{AttrFloats, len(a.Floats) > 0}, {AttrInts, len(a.Ints) > 0}, {AttrStrings, len(a.Strings) > 0},
		{AttrTensors, len(a.Tensors) > 0}, {AttrGraphs, len(a.Graphs) > 0},
		{AttrSparseTensors, len(a.SparseTensors) > 0}, {AttrTypeProtos, len(a.TypeProtos) > 0},
	} {
		if v.set {
			f |= 1 << v.t
		}
	}
	return f
}

func (c *checker) pushAttribute(i int, a *Attribute) {
	c.path = append(c.path, step{field: "attribute", index: i, name: a.Name})
}

func (c *checker) attributes(n *Node) {
	var seen map[string]bool
	if len(n.Attributes) > 8 {
		seen = make(map[string]bool, len(n.Attributes))
	}
	for i, a := range n.Attributes {
		if a == nil {
			c.push("attribute", i)
			c.fail("attribute is nil")
			c.pop()
			continue
		}
		c.pushAttribute(i, a)
		twice := seen[a.Name]
		if seen != nil {
			seen[a.Name] = true
		} else {
			for _, b := range n.Attributes[:i] {
				twice = twice || b != nil && b.Name == a.Name
			}
		}
		if twice {
			c.fail("Attribute %q appeared multiple times.", a.Name)
		}
		c.attribute(a)
		c.pop()
	}
}

func (c *checker) attribute(a *Attribute) {
	if a.Name == "" {
		c.fail("Field 'name' of 'attr' is required to be non-empty.")
	}
	c.utf8("name", a.Name)
	if a.untyped && a.fields == 0 && c.ir < 2 {
		// The type follows from the value field.
	} else if (a.untyped || a.Type == AttrUndefined) && c.ir >= 2 {
		c.fail("Field 'type' of 'attr' is required but missing.")
	} else if a.Type < AttrUndefined || a.Type > AttrTypeProtos {
		c.fail("unrecognized attribute type %d", int32(a.Type))
	}
	used := a.valueFields()
	switch {
	case bits.OnesCount16(used) > 1:
		c.fail("Attribute (name: %q) should not contain more than one value field.", a.Name)
	case used != 0 && a.Type > AttrUndefined && a.Type <= AttrTypeProtos && used != 1<<uint32(a.Type):
		c.fail("type field and data field mismatch in attribute %q: type is %s, the value field is that of %s.",
			a.Name, a.Type, AttributeType(bits.TrailingZeros16(used)))
	}
	if a.RefAttrName != "" {
		switch {
		case used != 0:
			c.fail("Attribute (name: %q) should refer to attribute in parent node.", a.Name)
		case c.function == nil:
			c.fail("Attribute (name: %q) refers to attribute %q outside of a function.", a.Name, a.RefAttrName)
		case !c.declared[a.RefAttrName]:
			c.fail("Attribute (name: %q) refers to attribute %q, which the function does not declare.",
				a.Name, a.RefAttrName)
		}
	} else if used == 0 {
		switch a.Type {
		case AttrTensor, AttrGraph, AttrSparseTensor, AttrTypeProto:
			c.fail("Attribute (name: %q) of type %s has no value.", a.Name, a.Type)
		}
	}
	if a.T != nil {
		c.push("t", -1)
		c.tensor(a.T)
		c.pop()
	}
	if a.SparseTensor != nil {
		c.push("sparse_tensor", -1)
		c.sparseTensor(a.SparseTensor)
		c.pop()
	}
	if a.G != nil {
		c.push("g", -1)
		c.graph(a.G, false)
		c.pop()
	}
	if a.TP != nil {
		c.push("tp", -1)
		c.typeProto(a.TP, false, 0)
		c.pop()
	}
	for i, t := range a.Tensors {
		c.push("tensors", i)
		c.tensor(t)
		c.pop()
	}
	for i, s := range a.SparseTensors {
		c.push("sparse_tensors", i)
		c.sparseTensor(s)
		c.pop()
	}
	for i, g := range a.Graphs {
		c.push("graphs", i)
		if g == nil {
			c.fail("graph is nil")
		} else {
			c.graph(g, false)
		}
		c.pop()
	}
	for i, t := range a.TypeProtos {
		c.push("type_protos", i)
		c.typeProto(t, false, 0)
		c.pop()
	}
}

// valueInfo checks an input or output. Its type is required in the main graph only.
func (c *checker) valueInfo(v *ValueInfo, main bool) {
	if v == nil || v.Name == "" {
		c.fail("Field 'name' of 'value_info' is required to be non-empty.")
		return
	}
	c.path[len(c.path)-1].name = v.Name
	c.utf8("name", v.Name)
	if !main {
		return
	}
	if v.Type == nil {
		c.fail("Field 'type' of 'value_info' is required but missing.")
		return
	}
	c.push("type", -1)
	c.typeProto(v.Type, true, 0)
	c.pop()
}

const maxTypeDepth = 100

// typeProto checks a type. The outermost type of a graph input or output must have a shape.
func (c *checker) typeProto(t *Type, shape bool, depth int) {
	if depth > maxTypeDepth {
		c.fail("%w: types are nested more than %d deep", ErrTooDeep, maxTypeDepth)
		return
	}
	if t == nil {
		c.fail("Field 'elem_type' of 'type' is required but missing.")
		return
	}
	tensorType := func(field string, t *TensorType) {
		c.push(field, -1)
		c.elemType("elem_type", t.ElemType)
		if shape && t.Shape == nil {
			c.fail("Field 'shape' of 'type' is required but missing.")
		}
		if t.Shape != nil && len(t.Shape.Dims) > tensor.MaxRank {
			c.fail("shape has rank %d, exceeding the limit of %d", len(t.Shape.Dims), tensor.MaxRank)
		}
		c.pop()
	}
	switch {
	case t.Tensor != nil:
		tensorType("tensor_type", t.Tensor)
	case t.SparseTensor != nil:
		tensorType("sparse_tensor_type", t.SparseTensor)
	case t.Sequence != nil:
		c.push("sequence_type", -1)
		c.typeProto(t.Sequence.Elem, false, depth+1)
		c.pop()
	case t.Optional != nil:
		c.push("optional_type", -1)
		c.typeProto(t.Optional.Elem, false, depth+1)
		c.pop()
	case t.Map != nil:
		c.push("map_type", -1)
		c.elemType("key_type", t.Map.Key)
		if d, err := t.Map.Key.dtype(); err == nil && d != tensor.TypeString && !(d.IsInteger() && !d.Packed()) {
			c.fail("setting key_type field to invalid TensorProto key_type %s is not allowed", t.Map.Key)
		}
		c.typeProto(t.Map.Value, false, depth+1)
		c.pop()
	case t.Opaque != nil:
		if t.Opaque.Name == "" {
			c.fail("Field 'name' of 'opaque_type' is required to be non-empty.")
		}
	default:
		c.fail("Unrecognized type value case: the type has no variant")
	}
}

func (c *checker) elemType(field string, t DataType) {
	if t == Undefined {
		c.fail("Field '%s' of 'type' is required but missing.", field)
	} else if _, err := t.dtype(); err != nil {
		c.fail("%s: %w", field, err)
	}
}

func (c *checker) tensor(t *Tensor) {
	if t == nil {
		c.fail("tensor is nil")
		return
	}
	n, err := t.validate()
	if err == nil && t.DataLocation == LocationExternal {
		err = c.externalData(t, n)
	}
	if err != nil {
		c.failWith(&TensorError{t.Name, err})
	}
}

// externalData checks the location of a tensor's external data. For a model from a file it also
// checks that the data exists.
func (c *checker) externalData(t *Tensor, n int64) error {
	info, err := t.externalInfo(c.external != nil && c.external.Strict)
	if err != nil {
		return err
	}
	size, err := t.DataType.byteLen(n)
	if err != nil {
		return err
	}
	if info.length >= 0 && info.length != size {
		return fail.Errorf("%w: length is %d, %s with dims %v needs %d", ErrExternalData, info.length,
			t.DataType, t.Dims, size)
	}
	if c.external == nil || c.opts.SkipExternalData {
		return nil
	}
	f, err := c.external.openRange(info, size)
	if err != nil {
		return err
	}
	return f.Close()
}

func (c *checker) sparseTensor(s *SparseTensor) {
	if s == nil || s.Values == nil {
		c.fail("Field 'values' of 'sparse_tensor' is required but missing.")
		return
	}
	before := len(c.found.Errors) + c.found.Omitted
	c.push("values", -1)
	c.tensor(s.Values)
	c.pop()
	if len(s.Values.Dims) != 1 {
		c.fail("Sparse tensor values (%q) must have rank 1.", s.Values.Name)
	}
	if len(s.Dims) == 0 {
		c.fail("Sparse tensor (%q) must have a dense-rank > 0", s.Values.Name)
	}
	for i, d := range s.Dims {
		if d <= 0 {
			c.fail("Sparse tensor (%q) dimensions are not positive: dim %d is %d.", s.Values.Name, i, d)
			break
		}
	}
	if s.Indices == nil {
		if len(s.Values.Dims) == 1 && s.Values.Dims[0] != 0 {
			c.fail("Sparse tensor (%q) has no index values.", s.Values.Name)
		}
	} else {
		c.push("indices", -1)
		c.tensor(s.Indices)
		c.pop()
		if s.Indices.DataType != Int64 {
			c.fail("Sparse tensor indices (%q) must have INT64 type.", s.Indices.Name)
		}
		if r := len(s.Indices.Dims); r != 1 && r != 2 {
			c.fail("Sparse tensor indices (%q) must have rank 1 or 2.", s.Indices.Name)
		}
	}
	if len(c.found.Errors)+c.found.Omitted > before {
		return
	}
	// The remaining checks need the indices.
	if c.opts.SkipExternalData &&
		(s.Values.DataLocation != LocationDefault || s.Indices != nil && s.Indices.DataLocation != LocationDefault) {
		return
	}
	if _, err := s.Decode(&DecodeOptions{External: c.external}); err != nil {
		if c.external == nil && errors.Is(err, ErrExternalData) {
			return // the model is from memory, without its external data
		}
		c.failWith(err)
	}
}
