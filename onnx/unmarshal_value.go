package onnx

import "math"

func (d *decoder) tensor(b []byte, m *Tensor) (err error) {
	if err := d.push(); err != nil {
		return err
	}
	var f field
	for len(b) > 0 {
		if b, err = d.next(b, &f); err != nil {
			return err
		}
		switch f.tag {
		case 1<<3 | wVarint:
			err = add(d, &m.Dims, int64(f.u))
		case 1<<3 | wBytes:
			err = varints(d, &m.Dims, f.b)
		case 2<<3 | wVarint:
			m.DataType = DataType(f.u)
		case 3<<3 | wBytes:
			err = sub(d, nil, &m.Segment, f.b, (*decoder).segment, "segment")
		case 4<<3 | wI32:
			err = add(d, &m.FloatData, math.Float32frombits(uint32(f.u)))
		case 4<<3 | wBytes:
			err = floats(d, &m.FloatData, f.b)
		case 5<<3 | wVarint:
			err = add(d, &m.Int32Data, int32(f.u))
		case 5<<3 | wBytes:
			err = varints(d, &m.Int32Data, f.b)
		case 6<<3 | wBytes:
			err = d.addStr(&m.StringData, f.b)
		case 7<<3 | wVarint:
			err = add(d, &m.Int64Data, int64(f.u))
		case 7<<3 | wBytes:
			err = varints(d, &m.Int64Data, f.b)
		case 8<<3 | wBytes:
			err = d.str(&m.Name, f.b)
		case 9<<3 | wBytes:
			err = d.raw(&m.RawData, f.b)
		case 10<<3 | wI64:
			err = add(d, &m.DoubleData, math.Float64frombits(f.u))
		case 10<<3 | wBytes:
			err = doubles(d, &m.DoubleData, f.b)
		case 11<<3 | wVarint:
			err = add(d, &m.Uint64Data, uint64(f.u))
		case 11<<3 | wBytes:
			err = varints(d, &m.Uint64Data, f.b)
		case 12<<3 | wBytes:
			err = d.str(&m.DocString, f.b)
		case 13<<3 | wBytes:
			err = vals(d, &m.ExternalData, f.b, (*decoder).entry, "external_data")
		case 14<<3 | wVarint:
			m.DataLocation = DataLocation(f.u)
		case 16<<3 | wBytes:
			err = vals(d, &m.MetadataProps, f.b, (*decoder).entry, "metadata_props")
		default:
			err = d.keep(&m.unknown, &f)
		}
		if err != nil {
			return err
		}
	}
	d.pop()
	return nil
}

func (d *decoder) segment(b []byte, m *Segment) (err error) {
	if err := d.push(); err != nil {
		return err
	}
	var f field
	for len(b) > 0 {
		if b, err = d.next(b, &f); err != nil {
			return err
		}
		switch f.tag {
		case 1<<3 | wVarint:
			m.Begin = int64(f.u)
		case 2<<3 | wVarint:
			m.End = int64(f.u)
		}
		if err != nil {
			return err
		}
	}
	d.pop()
	return nil
}

func (d *decoder) sparseTensor(b []byte, m *SparseTensor) (err error) {
	if err := d.push(); err != nil {
		return err
	}
	var f field
	for len(b) > 0 {
		if b, err = d.next(b, &f); err != nil {
			return err
		}
		switch f.tag {
		case 1<<3 | wBytes:
			err = sub(d, &d.tensors, &m.Values, f.b, (*decoder).tensor, "values")
		case 2<<3 | wBytes:
			err = sub(d, &d.tensors, &m.Indices, f.b, (*decoder).tensor, "indices")
		case 3<<3 | wVarint:
			err = add(d, &m.Dims, int64(f.u))
		case 3<<3 | wBytes:
			err = varints(d, &m.Dims, f.b)
		default:
			err = d.keep(&m.unknown, &f)
		}
		if err != nil {
			return err
		}
	}
	d.pop()
	return nil
}

func (d *decoder) valueInfo(b []byte, m *ValueInfo) (err error) {
	if err := d.push(); err != nil {
		return err
	}
	var f field
	for len(b) > 0 {
		if b, err = d.next(b, &f); err != nil {
			return err
		}
		switch f.tag {
		case 1<<3 | wBytes:
			err = d.str(&m.Name, f.b)
		case 2<<3 | wBytes:
			err = sub(d, &d.types, &m.Type, f.b, (*decoder).typeProto, "type")
		case 3<<3 | wBytes:
			err = d.str(&m.DocString, f.b)
		case 4<<3 | wBytes:
			err = vals(d, &m.MetadataProps, f.b, (*decoder).entry, "metadata_props")
		default:
			err = d.keep(&m.unknown, &f)
		}
		if err != nil {
			return err
		}
	}
	d.pop()
	return nil
}

func (d *decoder) typeProto(b []byte, m *Type) (err error) {
	if err := d.push(); err != nil {
		return err
	}
	var f field
	for len(b) > 0 {
		if b, err = d.next(b, &f); err != nil {
			return err
		}
		switch f.tag {
		case 1<<3 | wBytes:
			err = sub(d, &d.tensorTypes, &m.Tensor, f.b, (*decoder).tensorType, "tensor_type")
			m.SparseTensor, m.Sequence, m.Map, m.Optional, m.Opaque = nil, nil, nil, nil, nil
		case 4<<3 | wBytes:
			err = sub(d, nil, &m.Sequence, f.b, (*decoder).sequenceType, "sequence_type")
			m.Tensor, m.SparseTensor, m.Map, m.Optional, m.Opaque = nil, nil, nil, nil, nil
		case 5<<3 | wBytes:
			err = sub(d, nil, &m.Map, f.b, (*decoder).mapType, "map_type")
			m.Tensor, m.SparseTensor, m.Sequence, m.Optional, m.Opaque = nil, nil, nil, nil, nil
		case 6<<3 | wBytes:
			err = d.str(&m.Denotation, f.b)
		case 7<<3 | wBytes:
			err = sub(d, nil, &m.Opaque, f.b, (*decoder).opaqueType, "opaque_type")
			m.Tensor, m.SparseTensor, m.Sequence, m.Map, m.Optional = nil, nil, nil, nil, nil
		case 8<<3 | wBytes:
			err = sub(d, &d.tensorTypes, &m.SparseTensor, f.b, (*decoder).tensorType, "sparse_tensor_type")
			m.Tensor, m.Sequence, m.Map, m.Optional, m.Opaque = nil, nil, nil, nil, nil
		case 9<<3 | wBytes:
			err = sub(d, nil, &m.Optional, f.b, (*decoder).optionalType, "optional_type")
			m.Tensor, m.SparseTensor, m.Sequence, m.Map, m.Opaque = nil, nil, nil, nil, nil
		default:
			err = d.keep(&m.unknown, &f)
		}
		if err != nil {
			return err
		}
	}
	d.pop()
	return nil
}

func (d *decoder) tensorType(b []byte, m *TensorType) (err error) {
	if err := d.push(); err != nil {
		return err
	}
	var f field
	for len(b) > 0 {
		if b, err = d.next(b, &f); err != nil {
			return err
		}
		switch f.tag {
		case 1<<3 | wVarint:
			m.ElemType = DataType(f.u)
		case 2<<3 | wBytes:
			err = sub(d, &d.shapes, &m.Shape, f.b, (*decoder).shape, "shape")
		}
		if err != nil {
			return err
		}
	}
	d.pop()
	return nil
}

func (d *decoder) sequenceType(b []byte, m *SequenceType) (err error) {
	if err := d.push(); err != nil {
		return err
	}
	var f field
	for len(b) > 0 {
		if b, err = d.next(b, &f); err != nil {
			return err
		}
		switch f.tag {
		case 1<<3 | wBytes:
			err = sub(d, &d.types, &m.Elem, f.b, (*decoder).typeProto, "elem_type")
		}
		if err != nil {
			return err
		}
	}
	d.pop()
	return nil
}

func (d *decoder) mapType(b []byte, m *MapType) (err error) {
	if err := d.push(); err != nil {
		return err
	}
	var f field
	for len(b) > 0 {
		if b, err = d.next(b, &f); err != nil {
			return err
		}
		switch f.tag {
		case 1<<3 | wVarint:
			m.Key = DataType(f.u)
		case 2<<3 | wBytes:
			err = sub(d, &d.types, &m.Value, f.b, (*decoder).typeProto, "value_type")
		}
		if err != nil {
			return err
		}
	}
	d.pop()
	return nil
}

func (d *decoder) optionalType(b []byte, m *OptionalType) (err error) {
	if err := d.push(); err != nil {
		return err
	}
	var f field
	for len(b) > 0 {
		if b, err = d.next(b, &f); err != nil {
			return err
		}
		switch f.tag {
		case 1<<3 | wBytes:
			err = sub(d, &d.types, &m.Elem, f.b, (*decoder).typeProto, "elem_type")
		}
		if err != nil {
			return err
		}
	}
	d.pop()
	return nil
}

func (d *decoder) opaqueType(b []byte, m *OpaqueType) (err error) {
	if err := d.push(); err != nil {
		return err
	}
	var f field
	for len(b) > 0 {
		if b, err = d.next(b, &f); err != nil {
			return err
		}
		switch f.tag {
		case 1<<3 | wBytes:
			err = d.str(&m.Domain, f.b)
		case 2<<3 | wBytes:
			err = d.str(&m.Name, f.b)
		}
		if err != nil {
			return err
		}
	}
	d.pop()
	return nil
}

func (d *decoder) shape(b []byte, m *Shape) (err error) {
	if err := d.push(); err != nil {
		return err
	}
	var f field
	for len(b) > 0 {
		if b, err = d.next(b, &f); err != nil {
			return err
		}
		switch f.tag {
		case 1<<3 | wBytes:
			err = vals(d, &m.Dims, f.b, (*decoder).dim, "dim")
		}
		if err != nil {
			return err
		}
	}
	d.pop()
	return nil
}

func (d *decoder) dim(b []byte, m *Dim) (err error) {
	if err := d.push(); err != nil {
		return err
	}
	var f field
	for len(b) > 0 {
		if b, err = d.next(b, &f); err != nil {
			return err
		}
		switch f.tag {
		case 1<<3 | wVarint:
			m.Kind, m.Value, m.Param = DimValue, int64(f.u), ""
		case 2<<3 | wBytes:
			m.Kind, m.Value = DimParam, 0
			err = d.str(&m.Param, f.b)
		case 3<<3 | wBytes:
			err = d.str(&m.Denotation, f.b)
		}
		if err != nil {
			return err
		}
	}
	d.pop()
	return nil
}

func (d *decoder) sequence(b []byte, m *Sequence) (err error) {
	if err := d.push(); err != nil {
		return err
	}
	var f field
	for len(b) > 0 {
		if b, err = d.next(b, &f); err != nil {
			return err
		}
		switch f.tag {
		case 1<<3 | wBytes:
			err = d.str(&m.Name, f.b)
		case 2<<3 | wVarint:
			m.ElemType = ElementKind(f.u)
		case 3<<3 | wBytes:
			err = subs(d, &d.tensors, &m.Tensors, f.b, (*decoder).tensor, "tensor_values")
		case 4<<3 | wBytes:
			err = subs(d, nil, &m.SparseTensors, f.b, (*decoder).sparseTensor, "sparse_tensor_values")
		case 5<<3 | wBytes:
			err = subs(d, nil, &m.Sequences, f.b, (*decoder).sequence, "sequence_values")
		case 6<<3 | wBytes:
			err = subs(d, nil, &m.Maps, f.b, (*decoder).mapProto, "map_values")
		case 7<<3 | wBytes:
			err = subs(d, nil, &m.Optionals, f.b, (*decoder).optional, "optional_values")
		}
		if err != nil {
			return err
		}
	}
	d.pop()
	return nil
}

func (d *decoder) mapProto(b []byte, m *Map) (err error) {
	if err := d.push(); err != nil {
		return err
	}
	var f field
	for len(b) > 0 {
		if b, err = d.next(b, &f); err != nil {
			return err
		}
		switch f.tag {
		case 1<<3 | wBytes:
			err = d.str(&m.Name, f.b)
		case 2<<3 | wVarint:
			m.KeyType = DataType(f.u)
		case 3<<3 | wVarint:
			err = add(d, &m.Keys, int64(f.u))
		case 3<<3 | wBytes:
			err = varints(d, &m.Keys, f.b)
		case 4<<3 | wBytes:
			err = d.addStr(&m.StringKeys, f.b)
		case 5<<3 | wBytes:
			err = sub(d, nil, &m.Values, f.b, (*decoder).sequence, "values")
		}
		if err != nil {
			return err
		}
	}
	d.pop()
	return nil
}

func (d *decoder) optional(b []byte, m *Optional) (err error) {
	if err := d.push(); err != nil {
		return err
	}
	var f field
	for len(b) > 0 {
		if b, err = d.next(b, &f); err != nil {
			return err
		}
		switch f.tag {
		case 1<<3 | wBytes:
			err = d.str(&m.Name, f.b)
		case 2<<3 | wVarint:
			m.ElemType = ElementKind(f.u)
		case 3<<3 | wBytes:
			err = sub(d, &d.tensors, &m.Tensor, f.b, (*decoder).tensor, "tensor_value")
		case 4<<3 | wBytes:
			err = sub(d, nil, &m.SparseTensor, f.b, (*decoder).sparseTensor, "sparse_tensor_value")
		case 5<<3 | wBytes:
			err = sub(d, nil, &m.Sequence, f.b, (*decoder).sequence, "sequence_value")
		case 6<<3 | wBytes:
			err = sub(d, nil, &m.Map, f.b, (*decoder).mapProto, "map_value")
		case 7<<3 | wBytes:
			err = sub(d, nil, &m.Optional, f.b, (*decoder).optional, "optional_value")
		}
		if err != nil {
			return err
		}
	}
	d.pop()
	return nil
}
