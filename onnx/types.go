package onnx

import "slices"

// Model is a ModelProto: a graph with its operator set imports and model-local functions.
type Model struct {
	IRVersion       int64
	OpsetImports    []OperatorSetID
	ProducerName    string
	ProducerVersion string
	Domain          string
	ModelVersion    int64
	DocString       string
	Graph           *Graph
	MetadataProps   []StringStringEntry
	TrainingInfo    []*TrainingInfo
	Functions       []*Function
	Configurations  []*DeviceConfiguration

	unknown []byte
	file    *modelFile // nil for a model from memory
}

// OpsetVersion returns the imported version of a domain, and whether it is imported. "" and
// "ai.onnx" are the same domain. Of several imports of a domain, the last one holds.
func (m *Model) OpsetVersion(domain string) (int64, bool) {
	domain = NormalizeDomain(domain)
	for _, im := range slices.Backward(m.OpsetImports) {
		if NormalizeDomain(im.Domain) == domain {
			return im.Version, true
		}
	}
	return 0, false
}

// NormalizeDomain returns "" for "ai.onnx", the alias of the default operator domain, and any other
// domain unchanged.
func NormalizeDomain(domain string) string {
	if domain == "ai.onnx" {
		return ""
	}
	return domain
}

// OperatorSetID is an OperatorSetIdProto: an imported operator domain and its version.
type OperatorSetID struct {
	Domain  string
	Version int64
}

// StringStringEntry is a StringStringEntryProto: a key and its value.
type StringStringEntry struct {
	Key, Value string
}

// Graph is a GraphProto.
type Graph struct {
	Name                    string
	Nodes                   []*Node
	Inputs                  []*ValueInfo
	Outputs                 []*ValueInfo
	ValueInfo               []*ValueInfo
	Initializers            []*Tensor
	SparseInitializers      []*SparseTensor
	DocString               string
	QuantizationAnnotations []*TensorAnnotation
	MetadataProps           []StringStringEntry

	unknown []byte
}

// Node is a NodeProto: one application of an operator. An empty input or output name means that an
// optional input or output is not used.
type Node struct {
	Inputs               []string
	Outputs              []string
	Name                 string
	OpType               string
	Domain               string
	Overload             string
	Attributes           []*Attribute
	DocString            string
	MetadataProps        []StringStringEntry
	DeviceConfigurations []*NodeDeviceConfiguration

	unknown []byte
}

// Attribute returns the attribute with that name, or nil.
//
//go:noinline
func (n *Node) Attribute(name string) *Attribute {
	for _, a := range n.Attributes {
		if a.Name == name {
			return a
		}
	}
	return nil
}

// Subgraphs returns the graphs in the node's attributes, such as the branches of If.
func (n *Node) Subgraphs() []*Graph {
	var r []*Graph
	for _, a := range n.Attributes {
		r = append(r, a.Subgraphs()...)
	}
	return r
}

// AttributeType identifies the field of an [Attribute] that holds its value. The numbers are those
// of AttributeProto.AttributeType.
type AttributeType int32

// The attribute types of ONNX.
const (
	AttrUndefined     AttributeType = 0
	AttrFloat         AttributeType = 1
	AttrInt           AttributeType = 2
	AttrString        AttributeType = 3
	AttrTensor        AttributeType = 4
	AttrGraph         AttributeType = 5
	AttrFloats        AttributeType = 6
	AttrInts          AttributeType = 7
	AttrStrings       AttributeType = 8
	AttrTensors       AttributeType = 9
	AttrGraphs        AttributeType = 10
	AttrSparseTensor  AttributeType = 11
	AttrSparseTensors AttributeType = 12
	AttrTypeProto     AttributeType = 13
	AttrTypeProtos    AttributeType = 14
)

// Attribute is an AttributeProto. Type identifies the value field. In a function body, RefAttrName
// may refer to an attribute of the function instead.
//
// Files of IR versions 1 and 2 may lack the type; the reader then derives it from the value field
// that is present.
type Attribute struct {
	Name        string
	RefAttrName string
	DocString   string
	Type        AttributeType

	F            float32
	I            int64
	S            string // bytes, usually UTF-8
	T            *Tensor
	G            *Graph
	SparseTensor *SparseTensor
	TP           *Type

	Floats        []float32
	Ints          []int64
	Strings       []string
	Tensors       []*Tensor
	Graphs        []*Graph
	SparseTensors []*SparseTensor
	TypeProtos    []*Type

	// fields is a bit set of the value fields that the reader found, by attribute type. It is 0 if
	// Type and the values imply it, as in every valid attribute.
	fields uint16
	// untyped reports whether the type is missing or UNDEFINED in the file, for the checker.
	untyped bool
	unknown []byte
}

// ValueInfo is a ValueInfoProto: the name and type of a value.
type ValueInfo struct {
	Name          string
	Type          *Type
	DocString     string
	MetadataProps []StringStringEntry

	unknown []byte
}

// DataType is the element type of a tensor. The numbers are those of TensorProto.DataType.
type DataType int32

// The element types of ONNX, named as in TensorProto.DataType.
const (
	Undefined      DataType = 0
	Float          DataType = 1
	Uint8          DataType = 2
	Int8           DataType = 3
	Uint16         DataType = 4
	Int16          DataType = 5
	Int32          DataType = 6
	Int64          DataType = 7
	String         DataType = 8
	Bool           DataType = 9
	Float16        DataType = 10
	Double         DataType = 11
	Uint32         DataType = 12
	Uint64         DataType = 13
	Complex64      DataType = 14
	Complex128     DataType = 15
	BFloat16       DataType = 16
	Float8E4M3FN   DataType = 17
	Float8E4M3FNUZ DataType = 18
	Float8E5M2     DataType = 19
	Float8E5M2FNUZ DataType = 20
	Uint4          DataType = 21
	Int4           DataType = 22
	Float4E2M1     DataType = 23
	Float8E8M0     DataType = 24
	Uint2          DataType = 25
	Int2           DataType = 26
	Float6E2M3     DataType = 27
	Float6E3M2     DataType = 28
)

// DataLocation is the place where a tensor's elements are stored. The numbers are those of
// TensorProto.DataLocation.
type DataLocation int32

// The data locations of ONNX.
const (
	LocationDefault  DataLocation = 0 // in the tensor
	LocationExternal DataLocation = 1 // in the file given by ExternalData
)

// Tensor is a TensorProto: element type, dims and elements as stored in the file. The elements are
// in RawData (little-endian; present if not nil), in the typed field of DataType, or in an external
// file.
type Tensor struct {
	Name          string
	DocString     string
	Dims          []int64
	DataType      DataType
	DataLocation  DataLocation
	Segment       *Segment
	RawData       []byte
	FloatData     []float32 // float, complex64
	Int32Data     []int32   // every type of at most 16 bits, and int32
	StringData    []string
	Int64Data     []int64
	DoubleData    []float64 // double, complex128
	Uint64Data    []uint64  // uint32, uint64
	ExternalData  []StringStringEntry
	MetadataProps []StringStringEntry

	unknown []byte
}

// Segment is a TensorProto.Segment. No known ONNX tool writes segments; decoding a tensor with one
// fails.
type Segment struct {
	Begin, End int64
}

// SparseTensor is a SparseTensorProto. Values has shape [NNZ]. Indices has shape [NNZ] (linear
// indices) or [NNZ, rank] (coordinates), sorted and without duplicates.
type SparseTensor struct {
	Values  *Tensor
	Indices *Tensor
	Dims    []int64

	unknown []byte
}

// Type is a TypeProto. At most one of its variants is set.
type Type struct {
	Denotation   string
	Tensor       *TensorType
	SparseTensor *TensorType
	Sequence     *SequenceType
	Map          *MapType
	Optional     *OptionalType
	Opaque       *OpaqueType

	unknown []byte
}

// TensorType is the type of a dense or sparse tensor. If Shape is nil, the rank is unknown; a Shape
// without dims is that of a scalar.
type TensorType struct {
	ElemType DataType
	Shape    *Shape
}

// SequenceType is the type of a sequence.
type SequenceType struct {
	Elem *Type
}

// MapType is the type of a map. Its keys are integers or strings.
type MapType struct {
	Key   DataType
	Value *Type
}

// OptionalType is the type of an optional value.
type OptionalType struct {
	Elem *Type
}

// OpaqueType is a type that is defined by its domain.
type OpaqueType struct {
	Domain, Name string
}

// Shape is a TensorShapeProto.
type Shape struct {
	Dims []Dim
}

// DimKind is the kind of a [Dim].
type DimKind uint8

// The kinds of dims.
const (
	DimUnknown DimKind = iota // neither value nor name
	DimValue                  // Dim.Value
	DimParam                  // Dim.Param
)

// Dim is a TensorShapeProto.Dimension: a number, a symbolic name such as "batch", or unknown.
type Dim struct {
	Kind       DimKind
	Value      int64
	Param      string
	Denotation string
}

// Function is a FunctionProto: an operator defined by a body of nodes.
type Function struct {
	Name            string
	Domain          string
	Overload        string
	Inputs          []string
	Outputs         []string
	Attributes      []string     // without defaults
	AttributeProtos []*Attribute // with defaults
	Nodes           []*Node
	DocString       string
	OpsetImports    []OperatorSetID
	ValueInfo       []*ValueInfo
	MetadataProps   []StringStringEntry

	unknown []byte
}

// TrainingInfo is a TrainingInfoProto.
type TrainingInfo struct {
	Initialization         *Graph
	Algorithm              *Graph
	InitializationBindings []StringStringEntry
	UpdateBindings         []StringStringEntry

	unknown []byte
}

// TensorAnnotation is a TensorAnnotation message: the quantization parameters of a tensor, by name
// (scale, zero point).
type TensorAnnotation struct {
	TensorName                string
	QuantParameterTensorNames []StringStringEntry
}

// DeviceConfiguration is a DeviceConfigurationProto: a named set of devices for multi-device
// execution.
type DeviceConfiguration struct {
	Name       string
	NumDevices int32
	Devices    []string
}

// NodeDeviceConfiguration is a NodeDeviceConfigurationProto: how a node is distributed over
// devices.
type NodeDeviceConfiguration struct {
	ConfigurationID string
	ShardingSpecs   []*ShardingSpec
	PipelineStage   *int32 // nil: not set
}

// ShardingSpec is a ShardingSpecProto: how a tensor of a node is split.
type ShardingSpec struct {
	TensorName             string
	Devices                []int64
	IndexToDeviceGroupMaps []IntIntListEntry
	ShardedDims            []*ShardedDim
}

// IntIntListEntry is an IntIntListEntryProto.
type IntIntListEntry struct {
	Key    int64
	Values []int64
}

// ShardedDim is a ShardedDimProto.
type ShardedDim struct {
	Axis           int64
	SimpleSharding []SimpleShardedDim
}

// SimpleShardedDim is a SimpleShardedDimProto. Of Dim it uses Kind, Value and Param only.
type SimpleShardedDim struct {
	Dim       Dim
	NumShards int64
}

// ElementKind is the kind of the elements of a [Sequence] or [Optional]. The numbers are those of
// SequenceProto.DataType.
type ElementKind int32

// The kinds of elements.
const (
	KindUndefined    ElementKind = 0
	KindTensor       ElementKind = 1
	KindSparseTensor ElementKind = 2
	KindSequence     ElementKind = 3
	KindMap          ElementKind = 4
	KindOptional     ElementKind = 5
)

// Sequence is a SequenceProto (onnx-data.proto). ElemType determines which slice is used.
type Sequence struct {
	Name          string
	ElemType      ElementKind
	Tensors       []*Tensor
	SparseTensors []*SparseTensor
	Sequences     []*Sequence
	Maps          []*Map
	Optionals     []*Optional
}

// Map is a MapProto (onnx-data.proto). The keys are in Keys or StringKeys, depending on KeyType, in
// the order of Values.
type Map struct {
	Name       string
	KeyType    DataType
	Keys       []int64
	StringKeys []string
	Values     *Sequence
}

// Optional is an OptionalProto (onnx-data.proto). It is empty if ElemType is undefined or the field
// of that kind is nil.
type Optional struct {
	Name         string
	ElemType     ElementKind
	Tensor       *Tensor
	SparseTensor *SparseTensor
	Sequence     *Sequence
	Map          *Map
	Optional     *Optional
}
