package openvino

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"unicode/utf16"
	"unsafe"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/dl"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/provider/internal/native"
	"github.com/onward-ml/onward/tensor"
)

// read creates an ov_model_t. path is the model's file, "" for a model in memory. Models
// whose external data is behind symbolic links are read here, because OpenVINO opens any
// path that the model names.
func (r *library) read(path string, m *onnx.Model) (uintptr, error) {
	_, where, err := native.Weights(m)
	switch {
	case err != nil:
		return 0, err
	case path != "" && (where == nil || where.Real == ""):
		return r.readFile(path)
	}
	data, err := m.MarshalInline()
	if errors.Is(err, onnx.ErrTooBig) {
		return 0, &driver.StatusError{Code: driver.CodeNotImplemented, Err: err,
			Message: fmt.Sprintf("model is too large to pass to OpenVINO in memory: %v; open it from its file", err)}
	}
	if err != nil {
		return 0, err
	}
	return r.readBytes(data)
}

func (r *library) readFile(path string) (model uintptr, err error) {
	if runtime.GOOS == "windows" && r.table[fnReadModelUnicode] != 0 {
		wide := append(utf16.Encode([]rune(path)), 0)
		err = r.do(fnReadModelUnicode, r.core, uintptr(dl.Array(wide)), 0, uintptr(unsafe.Pointer(&model)))
		return model, err
	}
	err = r.do(fnReadModel, r.core, uintptr(unsafe.Pointer(dl.CString(path))), 0, uintptr(unsafe.Pointer(&model)))
	return model, err
}

func (r *library) readBytes(data []byte) (model uintptr, err error) {
	err = r.do(fnReadModelFromMemory, r.core, uintptr(dl.Array(data)), uintptr(len(data)), 0,
		uintptr(unsafe.Pointer(&model)))
	return model, err
}

// port is an input or an output of a model.
type port struct {
	name  string  // any of its names
	elem  int32   // element type in ov_element_type_e
	dims  []int64 // -1 for dynamic dimensions; nil if the rank is dynamic
	shape []int   // dims if all are fixed, nil otherwise
}

// ports returns the inputs or the outputs of a model.
func (r *library) ports(count, get fn, model uintptr) ([]port, error) {
	var n uintptr
	if err := r.do(count, model, uintptr(unsafe.Pointer(&n))); err != nil {
		return nil, err
	}
	list := make([]port, n)
	for i := range list {
		var err error
		if list[i], err = r.port(get, model, i); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func (r *library) port(get fn, model uintptr, i int) (p port, err error) {
	var h uintptr
	if err := r.do(get, model, uintptr(i), uintptr(unsafe.Pointer(&h))); err != nil {
		return p, err
	}
	defer r.free(fnPortFree, h)
	p.name = r.portName(h)
	if err := r.do(fnPortElementType, h, uintptr(unsafe.Pointer(&p.elem))); err != nil {
		return p, err
	}
	p.dims, err = r.portDims(h)
	if p.dims != nil && !slices.Contains(p.dims, -1) && err == nil {
		p.shape, err = native.Shape(p.dims)
	}
	return p, err
}

// portName returns one of a port's names, always the same one; "" if it has no name.
func (r *library) portName(h uintptr) string {
	var name uintptr
	if err := r.do(fnPortName, h, uintptr(unsafe.Pointer(&name))); err != nil {
		return ""
	}
	return r.text(name)
}

// partialShape is ov_partial_shape_t: minimum and maximum of the rank and of each dimension.
type partialShape struct {
	rank [2]int64
	dims uintptr
}

func (r *library) portDims(h uintptr) ([]int64, error) {
	var s partialShape
	if err := r.do(fnPortPartialShape, h, uintptr(unsafe.Pointer(&s))); err != nil {
		return nil, err
	}
	defer dl.Call(r.table[fnPartialShapeFree], uintptr(unsafe.Pointer(&s)))
	if s.rank[0] != s.rank[1] || s.rank[0] < 0 {
		return nil, nil
	}
	dims := make([]int64, s.rank[0])
	for i, d := range unsafe.Slice((*[2]int64)(dl.Pointer(s.dims)), len(dims)) {
		if dims[i] = d[0]; d[0] != d[1] {
			dims[i] = -1
		}
	}
	return dims, nil
}

// onlyTensors returns an error if an argument has a type that OpenVINO does not support.
func onlyTensors(what string, args []onward.NodeArg) error {
	for _, a := range args {
		t := a.ElementType()
		// models may leave the types of outputs undeclared
		if t.Kind != tensor.KindTensor && t.Kind != tensor.KindInvalid {
			return notImplemented("%s %s has type %s; OpenVINO supports tensors only", what, a.Name, a.Type)
		}
		// OpenVINO's CPU plug-in copies strings that pass through bytewise and frees their
		// memory twice.
		if what == "output" && t.Elem == tensor.TypeString {
			return notImplemented("output %s is a tensor of strings, which OpenVINO cannot return safely", a.Name)
		}
	}
	return nil
}

// match returns the argument index of each port. OpenVINO keeps the order of ONNX but
// removes unused inputs and may rename ports, so ports are matched by name, type and shape.
// It fails if the match is ambiguous.
func (t *elementTypes) match(what string, ports []port, args []onward.NodeArg) ([]int, error) {
	index := make([]int, len(ports))
	fits := func(p *port, a *onward.NodeArg) bool {
		if d := a.ElementType().Elem; d != tensor.Undefined && d != t.dtype[p.elem] || p.dims != nil &&
			a.Shape != nil && len(p.dims) != len(a.Shape) {
			return false
		}
		for i := range min(len(p.dims), len(a.Shape)) {
			if p.dims[i] >= 0 && a.Shape[i].Value >= 0 && p.dims[i] != a.Shape[i].Value {
				return false
			}
		}
		return true
	}
	// Match greedily from both ends: the match is unique if the two agree.
	next := 0
	for i := range ports {
		for next < len(args) && len(ports) != len(args) && args[next].Name != ports[i].name &&
			!fits(&ports[i], &args[next]) {
			next++
		}
		index[i] = next
		next++
	}
	last := len(args)
	for i := len(ports) - 1; i >= 0; i-- {
		for last--; last >= 0 && len(ports) != len(args) && args[last].Name != ports[i].name &&
			!fits(&ports[i], &args[last]); {
			last--
		}
		if index[i] != last {
			return nil, notImplemented(
				"OpenVINO removes %d of the model's %d %ss, and types and shapes do not tell which",
				len(args)-len(ports), len(args), what)
		}
	}
	return index, nil
}
