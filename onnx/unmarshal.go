package onnx

import "context"

// ReadOptions limit the cost of reading. With nil or the zero value, the defaults apply.
type ReadOptions struct {
	// MaxMemory limits the memory of decoded messages in bytes, not counting the input itself.
	// Default: 256 MiB plus 8 bytes per byte of input.
	MaxMemory int64
	// MaxDepth limits the nesting of messages; a subgraph takes three levels. Default: 256.
	MaxDepth int
	// MaxFileSize limits the size of the file in ReadFile, and of each file of its external data.
	// Default: no limit.
	MaxFileSize int64
	// Reserve is called before memory for decoded messages and the contents of the file
	// is allocated. If it fails, reading returns its error. Mapped memory is not
	// reserved. nil: no limit.
	Reserve func(bytes int64) error
	// Context ends ReadFile with its error. nil: never.
	Context context.Context
	// Copy makes the result independent of the input bytes. Otherwise strings and raw data alias
	// them, and they must stay unchanged while the result is in use.
	Copy bool
	// Map makes ReadFile map the file instead of reading it, on systems that support it; see
	// [ReadFile].
	Map bool
	// MapExternal applies Map to external data files too: large and aligned tensors that
	// [Model.DecodeTensor] returns alias them, until Close.
	MapExternal bool
	// Dir is the folder of the external data of a model read by Unmarshal; "" refuses external
	// data. ReadFile uses the folder of the file instead.
	Dir string
	// StrictExternalData refuses external data behind symbolic links.
	StrictExternalData bool
}

const (
	defaultMemory        = 256 << 20
	defaultMemoryPerByte = 8
	defaultDepth         = 256
)

func newDecoder(data []byte, opts *ReadOptions) *decoder {
	if opts == nil {
		opts = &ReadOptions{}
	}
	d := &decoder{data: data, mem: opts.MaxMemory, maxDepth: opts.MaxDepth, copies: opts.Copy, copyRaw: opts.Copy,
		reserve: opts.Reserve}
	if d.mem <= 0 {
		d.mem = defaultMemory + defaultMemoryPerByte*int64(len(data))
	}
	d.limit = d.mem
	if d.maxDepth <= 0 {
		d.maxDepth = defaultDepth
	}
	return d
}

func unmarshal[T any](message string, data []byte, opts *ReadOptions,
	read func(*decoder, []byte, *T) error) (*T, error) {
	d := newDecoder(data, opts)
	v := new(T)
	if err := d.finish(message, read(d, data, v)); err != nil {
		return nil, err
	}
	return v, nil
}

// Unmarshal parses a ModelProto. Errors are of type *[ParseError].
//
// Like every protobuf reader it merges duplicate singular messages, keeps the last of duplicate
// scalars, accepts repeated scalars packed and unpacked, and keeps unknown fields for writing.
// Empty input is a model without fields; [Check] reports what is missing.
func Unmarshal(data []byte, opts *ReadOptions) (*Model, error) {
	m, err := unmarshal("ModelProto", data, opts, (*decoder).model)
	if err != nil {
		return nil, err
	}
	if opts != nil && opts.Dir != "" {
		m.file = &modelFile{dir: opts.Dir, strict: opts.StrictExternalData}
	}
	return m, nil
}

// UnmarshalGraph parses a GraphProto.
func UnmarshalGraph(data []byte, opts *ReadOptions) (*Graph, error) {
	return unmarshal("GraphProto", data, opts, (*decoder).graph)
}

// UnmarshalNode parses a NodeProto.
func UnmarshalNode(data []byte, opts *ReadOptions) (*Node, error) {
	return unmarshal("NodeProto", data, opts, (*decoder).node)
}

// UnmarshalFunction parses a FunctionProto.
func UnmarshalFunction(data []byte, opts *ReadOptions) (*Function, error) {
	return unmarshal("FunctionProto", data, opts, (*decoder).function)
}

// UnmarshalTensor parses a TensorProto, the content of most input_N.pb files of the ONNX backend
// suite.
func UnmarshalTensor(data []byte, opts *ReadOptions) (*Tensor, error) {
	return unmarshal("TensorProto", data, opts, (*decoder).tensor)
}

// UnmarshalSparseTensor parses a SparseTensorProto.
func UnmarshalSparseTensor(data []byte, opts *ReadOptions) (*SparseTensor, error) {
	return unmarshal("SparseTensorProto", data, opts, (*decoder).sparseTensor)
}

// UnmarshalType parses a TypeProto.
func UnmarshalType(data []byte, opts *ReadOptions) (*Type, error) {
	return unmarshal("TypeProto", data, opts, (*decoder).typeProto)
}

// unmarshalSequence parses a SequenceProto.
func unmarshalSequence(data []byte, opts *ReadOptions) (*Sequence, error) {
	return unmarshal("SequenceProto", data, opts, (*decoder).sequence)
}

// unmarshalMap parses a MapProto.
func unmarshalMap(data []byte, opts *ReadOptions) (*Map, error) {
	return unmarshal("MapProto", data, opts, (*decoder).mapProto)
}

// unmarshalOptional parses an OptionalProto.
func unmarshalOptional(data []byte, opts *ReadOptions) (*Optional, error) {
	return unmarshal("OptionalProto", data, opts, (*decoder).optional)
}
