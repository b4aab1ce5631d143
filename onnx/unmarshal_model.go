package onnx

import (
	"math"
	"math/bits"
)

// sub parses a singular message. A second occurrence is merged into the first.
func sub[T any](d *decoder, s *slab[T], p **T, b []byte, read func(*decoder, []byte, *T) error,
	name string) (err error) {
	if *p == nil {
		if s != nil {
			*p, err = newIn(d, s)
		} else {
			*p, err = newOf[T](d)
		}
	}
	if err == nil {
		err = read(d, b, *p)
	}
	return d.at(err, name, -1)
}

// subs parses one element of a repeated message.
func subs[T any](d *decoder, s *slab[T], list *[]*T, b []byte, read func(*decoder, []byte, *T) error,
	name string) (err error) {
	var v *T
	if s != nil {
		v, err = newIn(d, s)
	} else {
		v, err = newOf[T](d)
	}
	if err == nil {
		if err = add(d, list, v); err == nil {
			err = read(d, b, v)
		}
	}
	if err != nil {
		return d.at(err, name, max(0, len(*list)-1))
	}
	return nil
}

// vals parses one element of a repeated message that is stored by value.
func vals[T any](d *decoder, list *[]T, b []byte, read func(*decoder, []byte, *T) error, name string) error {
	var v T
	err := add(d, list, v)
	if err == nil {
		err = read(d, b, &(*list)[len(*list)-1])
	}
	if err != nil {
		return d.at(err, name, max(0, len(*list)-1))
	}
	return nil
}

func (d *decoder) model(b []byte, m *Model) (err error) {
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
			m.IRVersion = int64(f.u)
		case 2<<3 | wBytes:
			err = d.str(&m.ProducerName, f.b)
		case 3<<3 | wBytes:
			err = d.str(&m.ProducerVersion, f.b)
		case 4<<3 | wBytes:
			err = d.str(&m.Domain, f.b)
		case 5<<3 | wVarint:
			m.ModelVersion = int64(f.u)
		case 6<<3 | wBytes:
			err = d.str(&m.DocString, f.b)
		case 7<<3 | wBytes:
			err = sub(d, nil, &m.Graph, f.b, (*decoder).graph, "graph")
		case 8<<3 | wBytes:
			err = vals(d, &m.OpsetImports, f.b, (*decoder).opsetID, "opset_import")
		case 14<<3 | wBytes:
			err = vals(d, &m.MetadataProps, f.b, (*decoder).entry, "metadata_props")
		case 20<<3 | wBytes:
			err = subs(d, nil, &m.TrainingInfo, f.b, (*decoder).trainingInfo, "training_info")
		case 25<<3 | wBytes:
			err = subs(d, nil, &m.Functions, f.b, (*decoder).function, "functions")
		case 26<<3 | wBytes:
			err = subs(d, nil, &m.Configurations, f.b, (*decoder).deviceConfiguration, "configuration")
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

func (d *decoder) graph(b []byte, m *Graph) (err error) {
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
			err = subs(d, &d.nodes, &m.Nodes, f.b, (*decoder).node, "node")
		case 2<<3 | wBytes:
			err = d.str(&m.Name, f.b)
		case 5<<3 | wBytes:
			err = subs(d, &d.tensors, &m.Initializers, f.b, (*decoder).tensor, "initializer")
		case 10<<3 | wBytes:
			err = d.str(&m.DocString, f.b)
		case 11<<3 | wBytes:
			err = subs(d, &d.infos, &m.Inputs, f.b, (*decoder).valueInfo, "input")
		case 12<<3 | wBytes:
			err = subs(d, &d.infos, &m.Outputs, f.b, (*decoder).valueInfo, "output")
		case 13<<3 | wBytes:
			err = subs(d, &d.infos, &m.ValueInfo, f.b, (*decoder).valueInfo, "value_info")
		case 14<<3 | wBytes:
			err = subs(d, nil, &m.QuantizationAnnotations, f.b, (*decoder).annotation, "quantization_annotation")
		case 15<<3 | wBytes:
			err = subs(d, nil, &m.SparseInitializers, f.b, (*decoder).sparseTensor, "sparse_initializer")
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

func (d *decoder) node(b []byte, m *Node) (err error) {
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
			err = d.addStr(&m.Inputs, f.b)
		case 2<<3 | wBytes:
			err = d.addStr(&m.Outputs, f.b)
		case 3<<3 | wBytes:
			err = d.str(&m.Name, f.b)
		case 4<<3 | wBytes:
			err = d.str(&m.OpType, f.b)
		case 5<<3 | wBytes:
			err = subs(d, &d.attrs, &m.Attributes, f.b, (*decoder).attribute, "attribute")
		case 6<<3 | wBytes:
			err = d.str(&m.DocString, f.b)
		case 7<<3 | wBytes:
			err = d.str(&m.Domain, f.b)
		case 8<<3 | wBytes:
			err = d.str(&m.Overload, f.b)
		case 9<<3 | wBytes:
			err = vals(d, &m.MetadataProps, f.b, (*decoder).entry, "metadata_props")
		case 10<<3 | wBytes:
			err = subs(d, nil, &m.DeviceConfigurations, f.b, (*decoder).nodeDevice, "device_configurations")
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

func (d *decoder) attribute(b []byte, m *Attribute) (err error) {
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
		case 2<<3 | wI32:
			m.F = math.Float32frombits(uint32(f.u))
			m.fields |= 1 << AttrFloat
		case 3<<3 | wVarint:
			m.I = int64(f.u)
			m.fields |= 1 << AttrInt
		case 4<<3 | wBytes:
			err = d.str(&m.S, f.b)
			m.fields |= 1 << AttrString
		case 5<<3 | wBytes:
			err = sub(d, &d.tensors, &m.T, f.b, (*decoder).tensor, "t")
			m.fields |= 1 << AttrTensor
		case 6<<3 | wBytes:
			err = sub(d, nil, &m.G, f.b, (*decoder).graph, "g")
			m.fields |= 1 << AttrGraph
		case 7<<3 | wI32:
			err = add(d, &m.Floats, math.Float32frombits(uint32(f.u)))
			m.fields |= 1 << AttrFloats
		case 7<<3 | wBytes:
			err = floats(d, &m.Floats, f.b)
			if len(m.Floats) > 0 { // a packed field may be empty
				m.fields |= 1 << AttrFloats
			}
		case 8<<3 | wVarint:
			err = add(d, &m.Ints, int64(f.u))
			m.fields |= 1 << AttrInts
		case 8<<3 | wBytes:
			err = varints(d, &m.Ints, f.b)
			if len(m.Ints) > 0 { // a packed field may be empty
				m.fields |= 1 << AttrInts
			}
		case 9<<3 | wBytes:
			err = d.addStr(&m.Strings, f.b)
			m.fields |= 1 << AttrStrings
		case 10<<3 | wBytes:
			err = subs(d, &d.tensors, &m.Tensors, f.b, (*decoder).tensor, "tensors")
			m.fields |= 1 << AttrTensors
		case 11<<3 | wBytes:
			err = subs(d, nil, &m.Graphs, f.b, (*decoder).graph, "graphs")
			m.fields |= 1 << AttrGraphs
		case 13<<3 | wBytes:
			err = d.str(&m.DocString, f.b)
		case 14<<3 | wBytes:
			err = sub(d, &d.types, &m.TP, f.b, (*decoder).typeProto, "tp")
			m.fields |= 1 << AttrTypeProto
		case 15<<3 | wBytes:
			err = subs(d, &d.types, &m.TypeProtos, f.b, (*decoder).typeProto, "type_protos")
			m.fields |= 1 << AttrTypeProtos
		case 20<<3 | wVarint:
			m.Type = AttributeType(f.u)
		case 21<<3 | wBytes:
			err = d.str(&m.RefAttrName, f.b)
		case 22<<3 | wBytes:
			err = sub(d, nil, &m.SparseTensor, f.b, (*decoder).sparseTensor, "sparse_tensor")
			m.fields |= 1 << AttrSparseTensor
		case 23<<3 | wBytes:
			err = subs(d, nil, &m.SparseTensors, f.b, (*decoder).sparseTensor, "sparse_tensors")
			m.fields |= 1 << AttrSparseTensors
		default:
			err = d.keep(&m.unknown, &f)
		}
		if err != nil {
			return err
		}
	}
	if m.Type == AttrUndefined {
		m.untyped = true
		if m.fields != 0 {
			m.Type = AttributeType(bits.TrailingZeros16(m.fields))
		}
	}
	if m.fields == 1<<uint32(m.Type) && m.RefAttrName == "" {
		m.fields = 0 // implied by the type
	}
	d.pop()
	return nil
}

func (d *decoder) function(b []byte, m *Function) (err error) {
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
		case 4<<3 | wBytes:
			err = d.addStr(&m.Inputs, f.b)
		case 5<<3 | wBytes:
			err = d.addStr(&m.Outputs, f.b)
		case 6<<3 | wBytes:
			err = d.addStr(&m.Attributes, f.b)
		case 7<<3 | wBytes:
			err = subs(d, &d.nodes, &m.Nodes, f.b, (*decoder).node, "node")
		case 8<<3 | wBytes:
			err = d.str(&m.DocString, f.b)
		case 9<<3 | wBytes:
			err = vals(d, &m.OpsetImports, f.b, (*decoder).opsetID, "opset_import")
		case 10<<3 | wBytes:
			err = d.str(&m.Domain, f.b)
		case 11<<3 | wBytes:
			err = subs(d, &d.attrs, &m.AttributeProtos, f.b, (*decoder).attribute, "attribute_proto")
		case 12<<3 | wBytes:
			err = subs(d, &d.infos, &m.ValueInfo, f.b, (*decoder).valueInfo, "value_info")
		case 13<<3 | wBytes:
			err = d.str(&m.Overload, f.b)
		case 14<<3 | wBytes:
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

func (d *decoder) trainingInfo(b []byte, m *TrainingInfo) (err error) {
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
			err = sub(d, nil, &m.Initialization, f.b, (*decoder).graph, "initialization")
		case 2<<3 | wBytes:
			err = sub(d, nil, &m.Algorithm, f.b, (*decoder).graph, "algorithm")
		case 3<<3 | wBytes:
			err = vals(d, &m.InitializationBindings, f.b, (*decoder).entry, "initialization_binding")
		case 4<<3 | wBytes:
			err = vals(d, &m.UpdateBindings, f.b, (*decoder).entry, "update_binding")
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

func (d *decoder) entry(b []byte, m *StringStringEntry) (err error) {
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
			err = d.str(&m.Key, f.b)
		case 2<<3 | wBytes:
			err = d.str(&m.Value, f.b)
		}
		if err != nil {
			return err
		}
	}
	d.pop()
	return nil
}

func (d *decoder) opsetID(b []byte, m *OperatorSetID) (err error) {
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
		case 2<<3 | wVarint:
			m.Version = int64(f.u)
		}
		if err != nil {
			return err
		}
	}
	d.pop()
	return nil
}

func (d *decoder) annotation(b []byte, m *TensorAnnotation) (err error) {
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
			err = d.str(&m.TensorName, f.b)
		case 2<<3 | wBytes:
			err = vals(d, &m.QuantParameterTensorNames, f.b, (*decoder).entry, "quant_parameter_tensor_names")
		}
		if err != nil {
			return err
		}
	}
	d.pop()
	return nil
}

func (d *decoder) deviceConfiguration(b []byte, m *DeviceConfiguration) (err error) {
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
			m.NumDevices = int32(f.u)
		case 3<<3 | wBytes:
			err = d.addStr(&m.Devices, f.b)
		}
		if err != nil {
			return err
		}
	}
	d.pop()
	return nil
}

func (d *decoder) nodeDevice(b []byte, m *NodeDeviceConfiguration) (err error) {
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
			err = d.str(&m.ConfigurationID, f.b)
		case 2<<3 | wBytes:
			err = subs(d, nil, &m.ShardingSpecs, f.b, (*decoder).sharding, "sharding_spec")
		case 3<<3 | wVarint:
			v := int32(f.u)
			m.PipelineStage = &v
		}
		if err != nil {
			return err
		}
	}
	d.pop()
	return nil
}

func (d *decoder) sharding(b []byte, m *ShardingSpec) (err error) {
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
			err = d.str(&m.TensorName, f.b)
		case 2<<3 | wVarint:
			err = add(d, &m.Devices, int64(f.u))
		case 2<<3 | wBytes:
			err = varints(d, &m.Devices, f.b)
		case 3<<3 | wBytes:
			err = vals(d, &m.IndexToDeviceGroupMaps, f.b, (*decoder).intIntList, "index_to_device_group_map")
		case 4<<3 | wBytes:
			err = subs(d, nil, &m.ShardedDims, f.b, (*decoder).shardedDim, "sharded_dim")
		}
		if err != nil {
			return err
		}
	}
	d.pop()
	return nil
}

func (d *decoder) intIntList(b []byte, m *IntIntListEntry) (err error) {
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
			m.Key = int64(f.u)
		case 2<<3 | wVarint:
			err = add(d, &m.Values, int64(f.u))
		case 2<<3 | wBytes:
			err = varints(d, &m.Values, f.b)
		}
		if err != nil {
			return err
		}
	}
	d.pop()
	return nil
}

func (d *decoder) shardedDim(b []byte, m *ShardedDim) (err error) {
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
			m.Axis = int64(f.u)
		case 2<<3 | wBytes:
			err = vals(d, &m.SimpleSharding, f.b, (*decoder).simpleShardedDim, "simple_sharding")
		}
		if err != nil {
			return err
		}
	}
	d.pop()
	return nil
}

func (d *decoder) simpleShardedDim(b []byte, m *SimpleShardedDim) (err error) {
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
			m.Dim.Kind, m.Dim.Value, m.Dim.Param = DimValue, int64(f.u), ""
		case 2<<3 | wBytes:
			m.Dim.Kind, m.Dim.Value = DimParam, 0
			err = d.str(&m.Dim.Param, f.b)
		case 3<<3 | wVarint:
			m.NumShards = int64(f.u)
		}
		if err != nil {
			return err
		}
	}
	d.pop()
	return nil
}
