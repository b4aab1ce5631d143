package onnx

func (e *encoder) model(m *Model) {
	e.int(1, m.IRVersion)
	e.str(2, m.ProducerName)
	e.str(3, m.ProducerVersion)
	e.str(4, m.Domain)
	e.int(5, m.ModelVersion)
	e.str(6, m.DocString)
	encodeOne(e, 7, m.Graph, (*encoder).graph)
	encodeVals(e, 8, m.OpsetImports, (*encoder).opsetID)
	encodeVals(e, 14, m.MetadataProps, (*encoder).entry)
	encodeAll(e, 20, m.TrainingInfo, (*encoder).trainingInfo)
	encodeAll(e, 25, m.Functions, (*encoder).function)
	encodeAll(e, 26, m.Configurations, (*encoder).deviceConfiguration)
	e.rest(m.unknown)
}

func (e *encoder) graph(g *Graph) {
	encodeAll(e, 1, g.Nodes, (*encoder).node)
	e.str(2, g.Name)
	encodeAll(e, 5, g.Initializers, (*encoder).tensor)
	e.str(10, g.DocString)
	encodeAll(e, 11, g.Inputs, (*encoder).valueInfo)
	encodeAll(e, 12, g.Outputs, (*encoder).valueInfo)
	encodeAll(e, 13, g.ValueInfo, (*encoder).valueInfo)
	encodeAll(e, 14, g.QuantizationAnnotations, (*encoder).annotation)
	encodeAll(e, 15, g.SparseInitializers, (*encoder).sparseTensor)
	encodeVals(e, 16, g.MetadataProps, (*encoder).entry)
	e.rest(g.unknown)
}

func (e *encoder) node(n *Node) {
	e.strs(1, n.Inputs)
	e.strs(2, n.Outputs)
	e.str(3, n.Name)
	e.str(4, n.OpType)
	encodeAll(e, 5, n.Attributes, (*encoder).attribute)
	e.str(6, n.DocString)
	e.str(7, n.Domain)
	e.str(8, n.Overload)
	encodeVals(e, 9, n.MetadataProps, (*encoder).entry)
	encodeAll(e, 10, n.DeviceConfigurations, (*encoder).nodeDevice)
	e.rest(n.unknown)
}

// has reports whether the scalar value field of attribute type t is written: the attribute has that
// type and is not a reference, or the field was present when reading, or it is set nevertheless.
func (a *Attribute) has(t AttributeType, set bool) bool {
	return set || a.fields&(1<<t) != 0 || a.Type == t && a.RefAttrName == "" && a.fields == 0
}

func (e *encoder) attribute(a *Attribute) {
	e.str(1, a.Name)
	if a.has(AttrFloat, a.F != 0) {
		e.float(2, a.F)
	}
	if a.has(AttrInt, a.I != 0) {
		e.intAlways(3, a.I)
	}
	if a.has(AttrString, a.S != "") {
		e.strAlways(4, a.S)
	}
	encodeOne(e, 5, a.T, (*encoder).tensor)
	encodeOne(e, 6, a.G, (*encoder).graph)
	for _, v := range a.Floats {
		e.float(7, v)
	}
	e.ints(8, a.Ints)
	e.strs(9, a.Strings)
	encodeAll(e, 10, a.Tensors, (*encoder).tensor)
	encodeAll(e, 11, a.Graphs, (*encoder).graph)
	e.str(13, a.DocString)
	encodeOne(e, 14, a.TP, (*encoder).typeProto)
	encodeAll(e, 15, a.TypeProtos, (*encoder).typeProto)
	e.int(20, int64(a.Type))
	e.str(21, a.RefAttrName)
	encodeOne(e, 22, a.SparseTensor, (*encoder).sparseTensor)
	encodeAll(e, 23, a.SparseTensors, (*encoder).sparseTensor)
	e.rest(a.unknown)
}

func (e *encoder) function(f *Function) {
	e.str(1, f.Name)
	e.strs(4, f.Inputs)
	e.strs(5, f.Outputs)
	e.strs(6, f.Attributes)
	encodeAll(e, 7, f.Nodes, (*encoder).node)
	e.str(8, f.DocString)
	encodeVals(e, 9, f.OpsetImports, (*encoder).opsetID)
	// Since IR version 8 the domain must be present, even if it is the default one.
	e.strAlways(10, f.Domain)
	encodeAll(e, 11, f.AttributeProtos, (*encoder).attribute)
	encodeAll(e, 12, f.ValueInfo, (*encoder).valueInfo)
	e.str(13, f.Overload)
	encodeVals(e, 14, f.MetadataProps, (*encoder).entry)
	e.rest(f.unknown)
}

func (e *encoder) trainingInfo(t *TrainingInfo) {
	encodeOne(e, 1, t.Initialization, (*encoder).graph)
	encodeOne(e, 2, t.Algorithm, (*encoder).graph)
	encodeVals(e, 3, t.InitializationBindings, (*encoder).entry)
	encodeVals(e, 4, t.UpdateBindings, (*encoder).entry)
	e.rest(t.unknown)
}

// opsetID writes both fields, since readers distinguish a missing version from version 0.
func (e *encoder) opsetID(o *OperatorSetID) {
	e.strAlways(1, o.Domain)
	e.intAlways(2, o.Version)
}

// entry writes both fields, since the Python onnx package rejects a pair without a value.
func (e *encoder) entry(s *StringStringEntry) {
	e.strAlways(1, s.Key)
	e.strAlways(2, s.Value)
}

func (e *encoder) annotation(t *TensorAnnotation) {
	e.str(1, t.TensorName)
	encodeVals(e, 2, t.QuantParameterTensorNames, (*encoder).entry)
}

func (e *encoder) deviceConfiguration(c *DeviceConfiguration) {
	e.str(1, c.Name)
	e.int(2, int64(c.NumDevices))
	e.strs(3, c.Devices)
}

func (e *encoder) nodeDevice(c *NodeDeviceConfiguration) {
	e.str(1, c.ConfigurationID)
	encodeAll(e, 2, c.ShardingSpecs, (*encoder).sharding)
	if c.PipelineStage != nil {
		e.intAlways(3, int64(*c.PipelineStage))
	}
}

func (e *encoder) sharding(s *ShardingSpec) {
	e.str(1, s.TensorName)
	e.ints(2, s.Devices)
	encodeVals(e, 3, s.IndexToDeviceGroupMaps, (*encoder).intIntList)
	encodeAll(e, 4, s.ShardedDims, (*encoder).shardedDim)
}

func (e *encoder) intIntList(l *IntIntListEntry) {
	e.intAlways(1, l.Key)
	e.ints(2, l.Values)
}

func (e *encoder) shardedDim(s *ShardedDim) {
	e.intAlways(1, s.Axis)
	encodeVals(e, 2, s.SimpleSharding, (*encoder).simpleShardedDim)
}

func (e *encoder) simpleShardedDim(s *SimpleShardedDim) {
	e.dimValue(&s.Dim)
	e.int(3, s.NumShards)
}

func (e *encoder) dimValue(d *Dim) {
	switch d.Kind {
	case DimValue:
		e.intAlways(1, d.Value)
	case DimParam:
		e.strAlways(2, d.Param)
	}
}

func (e *encoder) dim(d *Dim) {
	e.dimValue(d)
	e.str(3, d.Denotation)
}

func (e *encoder) shape(s *Shape) { encodeVals(e, 1, s.Dims, (*encoder).dim) }

func (e *encoder) tensor(t *Tensor) {
	if r := e.replace[t]; r != nil {
		t = r
	}
	e.ints(1, t.Dims)
	e.int(2, int64(t.DataType))
	encodeOne(e, 3, t.Segment, (*encoder).segment)
	e.packedFloats(4, t.FloatData)
	packedVarints(e, 5, t.Int32Data)
	e.strs(6, t.StringData)
	packedVarints(e, 7, t.Int64Data)
	e.str(8, t.Name)
	if t.RawData != nil {
		e.bytesAlways(9, t.RawData)
	}
	e.packedDoubles(10, t.DoubleData)
	packedVarints(e, 11, t.Uint64Data)
	e.str(12, t.DocString)
	encodeVals(e, 13, t.ExternalData, (*encoder).entry)
	e.int(14, int64(t.DataLocation))
	encodeVals(e, 16, t.MetadataProps, (*encoder).entry)
	e.rest(t.unknown)
}

func (e *encoder) segment(s *Segment) {
	e.intAlways(1, s.Begin)
	e.intAlways(2, s.End)
}

func (e *encoder) sparseTensor(s *SparseTensor) {
	encodeOne(e, 1, s.Values, (*encoder).tensor)
	encodeOne(e, 2, s.Indices, (*encoder).tensor)
	e.ints(3, s.Dims)
	e.rest(s.unknown)
}

func (e *encoder) valueInfo(v *ValueInfo) {
	e.str(1, v.Name)
	encodeOne(e, 2, v.Type, (*encoder).typeProto)
	e.str(3, v.DocString)
	encodeVals(e, 4, v.MetadataProps, (*encoder).entry)
	e.rest(v.unknown)
}

func (e *encoder) typeProto(t *Type) {
	encodeOne(e, 1, t.Tensor, (*encoder).tensorType)
	encodeOne(e, 4, t.Sequence, func(e *encoder, s *SequenceType) { encodeOne(e, 1, s.Elem, (*encoder).typeProto) })
	encodeOne(e, 5, t.Map, func(e *encoder, m *MapType) {
		e.int(1, int64(m.Key))
		encodeOne(e, 2, m.Value, (*encoder).typeProto)
	})
	e.str(6, t.Denotation)
	encodeOne(e, 7, t.Opaque, func(e *encoder, o *OpaqueType) {
		e.str(1, o.Domain)
		e.str(2, o.Name)
	})
	encodeOne(e, 8, t.SparseTensor, (*encoder).tensorType)
	encodeOne(e, 9, t.Optional, func(e *encoder, o *OptionalType) { encodeOne(e, 1, o.Elem, (*encoder).typeProto) })
	e.rest(t.unknown)
}

func (e *encoder) tensorType(t *TensorType) {
	e.int(1, int64(t.ElemType))
	encodeOne(e, 2, t.Shape, (*encoder).shape)
}

func (e *encoder) sequence(s *Sequence) {
	e.str(1, s.Name)
	e.int(2, int64(s.ElemType))
	encodeAll(e, 3, s.Tensors, (*encoder).tensor)
	encodeAll(e, 4, s.SparseTensors, (*encoder).sparseTensor)
	encodeAll(e, 5, s.Sequences, (*encoder).sequence)
	encodeAll(e, 6, s.Maps, (*encoder).mapProto)
	encodeAll(e, 7, s.Optionals, (*encoder).optional)
}

func (e *encoder) mapProto(m *Map) {
	e.str(1, m.Name)
	e.int(2, int64(m.KeyType))
	e.ints(3, m.Keys)
	e.strs(4, m.StringKeys)
	encodeOne(e, 5, m.Values, (*encoder).sequence)
}

func (e *encoder) optional(o *Optional) {
	e.str(1, o.Name)
	e.int(2, int64(o.ElemType))
	encodeOne(e, 3, o.Tensor, (*encoder).tensor)
	encodeOne(e, 4, o.SparseTensor, (*encoder).sparseTensor)
	encodeOne(e, 5, o.Sequence, (*encoder).sequence)
	encodeOne(e, 6, o.Map, (*encoder).mapProto)
	encodeOne(e, 7, o.Optional, (*encoder).optional)
}
