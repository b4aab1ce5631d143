package onnx

// Model is a ModelProto: a graph with the operator sets and functions that it uses.
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

// OpsetVersion returns the version of a domain that the model imports, and whether it imports it.
// "" and "ai.onnx" name the same domain.
func (m *Model) OpsetVersion(domain string) (int64, bool) {
	return opsetVersion(m.OpsetImports, domain)
}

func opsetVersion(imports []OperatorSetID, domain string) (int64, bool) {
	domain = NormalizeDomain(domain)
	for i := range imports {
		if NormalizeDomain(imports[i].Domain) == domain {
			return imports[i].Version, true
		}
	}
	return 0, false
}

// NormalizeDomain returns "" for "ai.onnx", the long name of the default operator domain, and any
// other domain unchanged.
func NormalizeDomain(domain string) string {
	if domain == "ai.onnx" {
		return ""
	}
	return domain
}

// OperatorSetID is an OperatorSetIdProto: an operator domain and the version of it that is imported.
type OperatorSetID struct {
	Domain  string
	Version int64
}

// StringStringEntry is a StringStringEntryProto, one pair of a map.
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

// Node is a NodeProto: one application of an operator.
// An empty input or output name stands for an optional one left out.
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

// Attribute returns the attribute of that name, or nil.
func (n *Node) Attribute(name string) *Attribute {
	for _, a := range n.Attributes {
		if a.Name == name {
			return a
		}
	}
	return nil
}

// Subgraphs returns the graphs that the node's attributes hold, such as the branches
// of If.
func (n *Node) Subgraphs() []*Graph {
	var r []*Graph
	for _, a := range n.Attributes {
		if a == nil {
			continue
		}
		if a.G != nil {
			r = append(r, a.G)
		}
		for _, g := range a.Graphs {
			if g != nil {
				r = append(r, g)
			}
		}
	}
	return r
}

// AttributeType says which field of an [Attribute] holds its value; numbered as AttributeProto.AttributeType.
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

// Attribute is an AttributeProto. Type says which value field is in use; in a function body
// RefAttrName may name an attribute of the function instead.
//
// Files of IR versions 1 and 2 may leave out the type; the reader then sets it from the value field
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

	// fields has bit 1<<t set where the reader met the value field of attribute type t; 0 where Type and
	// the values alone say that, as in every sound attribute.
	fields uint16
	// untyped is set where the file has no type, or UNDEFINED, so that the checker can say so.
	untyped bool
	unknown []byte
}

// ValueInfo is a ValueInfoProto: the name of a value with its type.
type ValueInfo struct {
	Name          string
	Type          *Type
	DocString     string
	MetadataProps []StringStringEntry

	unknown []byte
}

// DataType is the element type of a tensor, numbered as TensorProto.DataType.
type DataType int32

// The element types of ONNX, by the names of TensorProto.DataType.
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

// DataLocation says where the elements of a tensor are; numbered as TensorProto.DataLocation.
type DataLocation int32

// The data locations of ONNX.
const (
	LocationDefault  DataLocation = 0 // in the tensor
	LocationExternal DataLocation = 1 // in a file that ExternalData names
)

// Tensor is a TensorProto: element type, dims and elements as the file stores them.
// Its elements are in RawData (little-endian), in the typed field that belongs to DataType, or in an
// external file. RawData is present when it is not nil.
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

// Segment is a TensorProto.Segment. No ONNX tool writes segments; decoding a tensor with one fails.
type Segment struct {
	Begin, End int64
}

// SparseTensor is a SparseTensorProto. Values has shape [NNZ]; Indices has shape [NNZ] with linear
// indices or [NNZ, rank] with coordinates, both sorted and unique.
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

// TensorType is the type of a dense or sparse tensor. A nil Shape means that even the rank is unknown;
// a Shape without dims is a scalar's.
type TensorType struct {
	ElemType DataType
	Shape    *Shape
}

// SequenceType is the type of a sequence.
type SequenceType struct {
	Elem *Type
}

// MapType is the type of a map from an integer or string key.
type MapType struct {
	Key   DataType
	Value *Type
}

// OptionalType is the type of an optional value.
type OptionalType struct {
	Elem *Type
}

// OpaqueType is a type that only its domain understands.
type OpaqueType struct {
	Domain, Name string
}

// Shape is a TensorShapeProto.
type Shape struct {
	Dims []Dim
}

// DimKind says what is known of a [Dim].
type DimKind uint8

// The kinds of dims.
const (
	DimUnknown DimKind = iota // neither a value nor a name
	DimValue                  // Dim.Value
	DimParam                  // Dim.Param
)

// Dim is a TensorShapeProto.Dimension: a number, a name such as "batch" that stands for a number, or unknown.
type Dim struct {
	Kind       DimKind
	Value      int64
	Param      string
	Denotation string
}

// Function is a FunctionProto: an operator that is defined by a body of nodes.
type Function struct {
	Name            string
	Domain          string
	Overload        string
	Inputs          []string
	Outputs         []string
	Attributes      []string     // attributes without a default
	AttributeProtos []*Attribute // attributes with their defaults
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

// TensorAnnotation names the tensors that quantize a tensor (scale, zero point).
type TensorAnnotation struct {
	TensorName                string
	QuantParameterTensorNames []StringStringEntry
}

// DeviceConfiguration is a DeviceConfigurationProto: a named set of devices for multi-device execution.
type DeviceConfiguration struct {
	Name       string
	NumDevices int32
	Devices    []string
}

// NodeDeviceConfiguration is a NodeDeviceConfigurationProto: how a node is spread over devices.
type NodeDeviceConfiguration struct {
	ConfigurationID string
	ShardingSpecs   []*ShardingSpec
	PipelineStage   *int32 // nil: not given
}

// ShardingSpec is a ShardingSpecProto: how one tensor of a node is split.
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

// SimpleShardedDim is a SimpleShardedDimProto; Dim uses Kind, Value and Param only.
type SimpleShardedDim struct {
	Dim       Dim
	NumShards int64
}

// ElementKind says what a [Sequence] or an [Optional] holds; numbered as SequenceProto.DataType.
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

// Sequence is a SequenceProto (onnx-data.proto). ElemType says which slice is in use.
type Sequence struct {
	Name          string
	ElemType      ElementKind
	Tensors       []*Tensor
	SparseTensors []*SparseTensor
	Sequences     []*Sequence
	Maps          []*Map
	Optionals     []*Optional
}

// Map is a MapProto (onnx-data.proto). Keys or StringKeys hold the keys, by KeyType, in the order of Values.
type Map struct {
	Name       string
	KeyType    DataType
	Keys       []int64
	StringKeys []string
	Values     *Sequence
}

// Optional is an OptionalProto (onnx-data.proto). It is empty where ElemType is undefined or the field
// of its kind is nil.
type Optional struct {
	Name         string
	ElemType     ElementKind
	Tensor       *Tensor
	SparseTensor *SparseTensor
	Sequence     *Sequence
	Map          *Map
	Optional     *Optional
}
