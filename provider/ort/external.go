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
	// folderEntry tells ONNX Runtime where the external data of a model in memory
	// lies (onnxruntime_session_options_config_keys.h). sinceFolder is a release that
	// has it.
	folderEntry = "session.model_external_initializers_file_folder_path"
	sinceFolder = 21

	// maxProto is what Protocol Buffers take in one message, with some room.
	maxProto = 1<<31 - 1<<20
	// largeInitializer is from which size on initializers are handed over beside a
	// message that would be too large.
	largeInitializer = 1 << 10
)

// external is how a model's large data gets to ONNX Runtime.
type external struct {
	file   string      // the model's, when ONNX Runtime reads it
	model  *onnx.Model // else what to marshal
	folder string      // of the external data, when ONNX Runtime reads that

	names   []string // of the initializers that are handed over
	tensors []*tensor.Tensor
	values  []uintptr
}

// external prepares the external data of a model, and of one that is too large for
// one message. ONNX Runtime opens files wherever the model says, so the places are
// checked first. path is the model's file, "" for a model in memory.
//
// given are initializers that are handed over whatever the model says of their data.
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

// handOver takes initializers out of the model. Their values are the given ones, or
// what the model has.
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
		graph.Initializers[i] = &onnx.Tensor{Name: t.Name, Dims: t.Dims, DataType: t.DataType, DataLocation: onnx.LocationExternal,
			ExternalData: []onnx.StringStringEntry{{Key: "location", Value: "onward-memory"}}}
	}
	model.Graph = &graph
	e.model = &model
	return nil
}

// add hands the initializers to session options.
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
	return r.do(fnAddExternalInitializers, opts, uintptr(unsafe.Pointer(&names[0])), uintptr(unsafe.Pointer(&e.values[0])), uintptr(len(names)))
}

func (e *external) release(r *library) {
	for _, v := range e.values {
		r.release(fnReleaseValue, v)
	}
}
