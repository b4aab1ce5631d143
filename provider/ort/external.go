package ort

import (
	"fmt"
	"path/filepath"
	"unsafe"

	"github.com/onward-ml/onward/internal/dl"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/provider/internal/native"
	"github.com/onward-ml/onward/tensor"
)

const (
	// folderEntry is the session configuration entry for the folder with the external data
	// of a model in memory (onnxruntime_session_options_config_keys.h). sinceFolder is the
	// version from which on it is used.
	folderEntry = "session.model_external_initializers_file_folder_path"
	sinceFolder = 21

	// maxProto is the size limit of a Protocol Buffers message, less a margin.
	maxProto = 1<<31 - 1<<20
	// largeInitializer is the size in bytes from which on initializers are passed
	// separately if the message would be too large.
	largeInitializer = 1 << 10
)

// external says how a model and its external data are passed to ONNX Runtime.
type external struct {
	file   string      // the model file, if ONNX Runtime reads it
	model  *onnx.Model // the model to marshal otherwise
	folder string      // folder of the external data, if ONNX Runtime reads it

	names   []string // names of the initializers passed as OrtValues
	tensors []*tensor.Tensor
	values  []uintptr
}

// external prepares the external data of a model, and large initializers if the model
// exceeds one message. ONNX Runtime opens any path that the model names, so the locations
// are checked first. path is the model's file, "" for a model in memory.
//
// given holds values that replace external initializers.
func (r *library) external(path string, m *onnx.Model, given map[string]tensor.Value) (*external, error) {
	e := &external{model: m}
	if len(given) > 0 && m.Graph != nil {
		return e, e.handOver(m, func(t *onnx.Tensor) bool { return t.DataLocation == onnx.LocationExternal }, given)
	}
	size, where, err := native.Weights(m)
	switch {
	case err != nil:
		return nil, err
	case where != nil:
		abs, err := filepath.Abs(where.Dir)
		if err != nil {
			return nil, err
		}
		if path != "" && where.Real == "" {
			e.file = path
			return e, nil
		}
		if r.api >= sinceFolder && where.Real == "" && size < maxProto {
			e.folder = abs
			return e, nil
		}
	case size < maxProto:
		e.file = path
		return e, nil
	}
	return e, e.handOver(m, func(t *onnx.Tensor) bool {
		return t.DataLocation == onnx.LocationExternal || size >= maxProto && len(t.RawData) >= largeInitializer
	}, nil)
}

// handOver moves the initializers that which selects from the model to e. A value in given
// replaces the model's.
func (e *external) handOver(m *onnx.Model, which func(*onnx.Tensor) bool, given map[string]tensor.Value) error {
	model, graph := *m, *m.Graph
	graph.Initializers = append([]*onnx.Tensor(nil), graph.Initializers...)
	for i, t := range graph.Initializers {
		if t == nil || !which(t) {
			continue
		}
		v, ok := given[t.Name].(*tensor.Tensor)
		if !ok {
			var err error
			if v, err = m.DecodeTensor(t); err != nil {
				return fmt.Errorf("initializer %s: %w", t.Name, err)
			}
		}
		e.names, e.tensors = append(e.names, t.Name), append(e.tensors, v)
		graph.Initializers[i] = &onnx.Tensor{Name: t.Name, Dims: t.Dims, DataType: t.DataType,
			DataLocation: onnx.LocationExternal,
			ExternalData: []onnx.StringStringEntry{{Key: "location", Value: "onward-memory"}}}
	}
	model.Graph = &graph
	e.model = &model
	return nil
}

// add adds the initializers to session options.
func (e *external) add(r *library, opts uintptr) error {
	if len(e.names) == 0 {
		return nil
	}
	st := new(state)
	for i, t := range e.tensors {
		h, err := r.value(st, t, t.Type())
		if err != nil {
			return fmt.Errorf("initializer %s: %w", e.names[i], err)
		}
		e.values = append(e.values, h)
	}
	names := dl.CStrings(e.names)
	return r.do(fnAddExternalInitializers, opts, uintptr(unsafe.Pointer(&names[0])),
		uintptr(unsafe.Pointer(&e.values[0])), uintptr(len(names)))
}

func (e *external) release(r *library) {
	for _, v := range e.values {
		r.release(fnReleaseValue, v)
	}
}
