package onward

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/onward-ml/onward/internal/flatbuf"
	"github.com/onward-ml/onward/tensor"
)

// Adapter holds the parameters of a LoRA adapter. [RunOptions.Adapters] replaces inputs of a
// model, most often those with an initializer as default, by the parameters. An adapter that
// is in use must not be changed; any number of runs may share it.
type Adapter struct {
	Version      int    // of the adapter; its authors choose the number
	ModelVersion int    // of the model that the adapter is for
	Parameters   Values // tensors by the name of the input
}

// The schema is onnxruntime/lora/adapter_format/adapter_schema.fbs of ONNX Runtime:
//
//	table Parameter { name:string; dims:[int64]; data_type:int32; raw_data:[uint8]; }
//	table Adapter { format_version:int; adapter_version:int; model_version:int; parameters:[Parameter]; }
//	root_type Adapter;
//	file_identifier "TORT";

// The indices of the fields in their tables.
const (
	adapterFormat       = 0
	adapterVersion      = 1
	adapterModelVersion = 2
	adapterParameters   = 3

	parameterName = 0
	parameterDims = 1
	parameterType = 2
	parameterData = 3
)

const (
	adapterIdentifier    = "TORT"
	adapterFormatVersion = 1
	maxParameterRank     = 64
)

// LoadAdapter reads a file of ONNX Runtime's adapter format (.onnx_adapter), which
// onnxruntime.AdapterFormat of Python and Olive write. Errors are of type *[StatusError].
func LoadAdapter(path string) (*Adapter, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, adapterFileError(err)
	}
	a, err := parseAdapter(data)
	if err != nil {
		return nil, invalid(fmt.Errorf("%s: %w", path, err))
	}
	return a, nil
}

func adapterFileError(err error) error {
	code := CodeFail
	if errors.Is(err, fs.ErrNotExist) {
		code = CodeNoSuchFile
	}
	return &StatusError{Code: code, Message: "Load LoRA adapter failed: " + err.Error(), Err: err}
}

// ParseAdapter is [LoadAdapter] for the contents of a file, which it copies.
func ParseAdapter(data []byte) (*Adapter, error) {
	a, err := parseAdapter(data)
	if err != nil {
		return nil, invalid(err)
	}
	return a, nil
}

func parseAdapter(data []byte) (*Adapter, error) {
	r := flatbuf.NewReader(data)
	if id := r.Identifier(); id != adapterIdentifier {
		return nil, fmt.Errorf("the data is not a LoRA adapter: its identifier is %q, want %q", id, adapterIdentifier)
	}
	root, err := r.Root()
	if err != nil {
		return nil, fmt.Errorf("LoRA adapter: %w", err)
	}
	var numbers [3]int32
	for i := range numbers {
		if numbers[i], err = r.Int32(root, i); err != nil {
			return nil, fmt.Errorf("LoRA adapter: field %d: %w", i, err)
		}
	}
	if v := numbers[adapterFormat]; v != adapterFormatVersion {
		return nil, fmt.Errorf("LoRA adapter: format version %d is not supported, want %d", v, adapterFormatVersion)
	}
	tables, err := r.Tables(root, adapterParameters)
	if err != nil {
		return nil, fmt.Errorf("LoRA adapter: parameters: %w", err)
	}
	a := &Adapter{Version: int(numbers[adapterVersion]), ModelVersion: int(numbers[adapterModelVersion]),
		Parameters: make(Values, len(tables))}
	for i, table := range tables {
		name, err := r.Text(table, parameterName)
		if err != nil {
			return nil, fmt.Errorf("LoRA adapter: parameter %d: name: %w", i, err)
		}
		if _, ok := a.Parameters[name]; ok {
			return nil, fmt.Errorf("LoRA adapter: parameter %d: there is another one of the name %.200q", i, name)
		}
		t, err := readParameter(r, table)
		if err != nil {
			return nil, fmt.Errorf("LoRA adapter: parameter %d, %.200q: %w", i, name, err)
		}
		a.Parameters[name] = t
	}
	return a, nil
}

// readParameter returns the tensor of a parameter. The data may not be aligned, so it is copied.
func readParameter(r *flatbuf.Reader, table int) (*tensor.Tensor, error) {
	dims, err := r.Vector(table, parameterDims, 8)
	if err != nil {
		return nil, fmt.Errorf("dims: %w", err)
	}
	if len(dims)/8 > maxParameterRank {
		return nil, fmt.Errorf("rank %d, want at most %d", len(dims)/8, maxParameterRank)
	}
	shape := make([]int, len(dims)/8)
	for i := range shape {
		d := int64(binary.LittleEndian.Uint64(dims[8*i:]))
		if shape[i] = int(d); int64(shape[i]) != d {
			return nil, fmt.Errorf("dimension %d is %d, which int cannot hold", i, d)
		}
	}
	code, err := r.Int32(table, parameterType)
	if err != nil {
		return nil, fmt.Errorf("data_type: %w", err)
	}
	if code <= 0 || code > int32(tensor.TypeFloat8E5M2FNUZ) || code == int32(tensor.TypeString) {
		return nil, fmt.Errorf("data_type %d is not supported, want 1 to %d and not %d, string", code,
			tensor.TypeFloat8E5M2FNUZ, tensor.TypeString)
	}
	data, err := r.Vector(table, parameterData, 1)
	if err != nil {
		return nil, fmt.Errorf("raw_data: %w", err)
	}
	t, err := tensor.FromBytes(tensor.DType(code), data, shape...)
	if err != nil {
		return nil, err
	}
	return t.Clone(), nil
}
