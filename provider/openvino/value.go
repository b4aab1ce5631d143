package openvino

import (
	"fmt"
	"runtime"
	"strings"
	"unsafe"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/dl"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/provider/internal/native"
	"github.com/onward-ml/onward/tensor"
)

// elementTypes maps element types to values of ov_element_type_e and back. The values
// change between releases, so they are queried from the library.
type elementTypes struct {
	number map[tensor.DType]int32
	dtype  map[int32]tensor.DType
}

// queryElements reads a model for each ONNX element type and records the value that
// OpenVINO reports for its input. Types that OpenVINO does not support are left out.
func (r *library) queryElements() (*elementTypes, error) {
	e := &elementTypes{number: map[tensor.DType]int32{}, dtype: map[int32]tensor.DType{}}
	for d := tensor.TypeFloat32; d.Valid(); d++ {
		b := onnx.NewModel("type").Opset("", 13).IRVersion(8)
		b.Input("x", onnx.DataType(d), 1).Output("y", onnx.DataType(d), 1)
		b.Node("Identity", []string{"x"}, []string{"y"})
		m, err := b.Model()
		if err != nil {
			return nil, err
		}
		data, err := m.Marshal()
		if err != nil {
			return nil, err
		}
		model, err := r.readBytes(data)
		if err != nil {
			if d == tensor.TypeFloat32 {
				return nil, fmt.Errorf("OpenVINO %s cannot read an ONNX model: %w", r.version, err)
			}
			continue
		}
		p, err := r.port(fnModelInput, model, 0)
		r.free(fnModelFree, model)
		if err != nil {
			return nil, err
		}
		if _, taken := e.dtype[p.elem]; !taken {
			e.number[d], e.dtype[p.elem] = p.elem, d
		}
	}
	return e, nil
}

var noData [64]byte // empty tensors point to it

// hostTensor creates an ov_tensor_t that shares the memory of a tensor, which the caller
// must keep alive. elem is the type's value in ov_element_type_e.
func (r *library) hostTensor(st *state, t *tensor.Tensor, elem int32) (uintptr, error) {
	st.setShape(t.Shape())
	st.res = 0
	if t.DType() == tensor.TypeString {
		return r.stringTensor(st, t)
	}
	data := unsafe.Pointer(&noData)
	if len(t.Bytes()) > 0 {
		data = dl.Array(t.Bytes())
	}
	var err error
	if runtime.GOOS == "windows" {
		err = r.do(fnTensorFromHost, uintptr(elem), uintptr(unsafe.Pointer(&st.shape)), uintptr(data),
			uintptr(unsafe.Pointer(&st.res)))
	} else {
		err = r.do(fnTensorFromHost, uintptr(elem), uintptr(st.shape.rank), st.shape.dims, uintptr(data),
			uintptr(unsafe.Pointer(&st.res)))
	}
	return st.res, err
}

// stringTensor creates an ov_tensor_t with copies of the strings.
func (r *library) stringTensor(st *state, t *tensor.Tensor) (uintptr, error) {
	if r.table[fnTensorFromStrings] == 0 {
		return 0, notImplemented("tensors of strings need OpenVINO 2025.0 or later, got %s", r.version)
	}
	list := tensor.MustData[string](t)
	for i, s := range list {
		if strings.ContainsRune(s, 0) {
			return 0, native.Invalid("string %d contains a NUL, which OpenVINO's C API does not support: %q", i, s)
		}
	}
	if len(list) == 0 {
		return 0, notImplemented("OpenVINO's C API does not support empty tensors of strings")
	}
	c := dl.CStrings(list)
	args := append([]uintptr{uintptr(dl.Array(c)), uintptr(len(c))}, shapeArgs(&st.shape)...)
	err := r.do(fnTensorFromStrings, append(args, uintptr(unsafe.Pointer(&st.res)))...)
	runtime.KeepAlive(c)
	return st.res, err
}

// result copies an ov_tensor_t to given if type and shape match, otherwise to a new tensor.
func (r *library) result(st *state, h uintptr, given *tensor.Tensor) (*tensor.Tensor, error) {
	if err := r.do(fnTensorType, h, uintptr(unsafe.Pointer(&st.i32))); err != nil {
		return nil, err
	}
	types, err := r.elements()
	if err != nil {
		return nil, err
	}
	d, ok := types.dtype[st.i32]
	if !ok {
		return nil, notImplemented("OpenVINO's element type %d has no ONNX counterpart", st.i32)
	}
	dims, err := r.tensorShape(st, h)
	if err != nil {
		return nil, err
	}
	t := given
	if t == nil || t.DType() != d || !sameShape(t.Shape(), dims) {
		if t, err = tensor.Zeros(d, dims...); err != nil {
			return nil, err
		}
	}
	if t.Len() == 0 {
		return t, nil
	}
	if err := r.do(fnTensorByteSize, h, uintptr(unsafe.Pointer(&st.res))); err != nil {
		return nil, err
	}
	n := int(st.res)
	if err := r.do(fnTensorData, h, uintptr(unsafe.Pointer(&st.res))); err != nil {
		return nil, err
	}
	if n != len(t.Bytes()) {
		return nil, fmt.Errorf("OpenVINO returned %s with %d bytes, want %d", t, n, len(t.Bytes()))
	}
	copy(t.Bytes(), dl.Bytes(st.res, n))
	return t, nil
}

func sameShape(a, b []int) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func (r *library) tensorShape(st *state, h uintptr) ([]int, error) {
	st.shape = shape{}
	if err := r.do(fnTensorShape, h, uintptr(unsafe.Pointer(&st.shape))); err != nil {
		// ov_tensor_get_shape fails for scalars.
		if r.do(fnTensorSize, h, uintptr(unsafe.Pointer(&st.res))) == nil && st.res == 1 {
			return []int{}, nil
		}
		return nil, err
	}
	defer dl.Call(r.table[fnShapeFree], uintptr(unsafe.Pointer(&st.shape)))
	return native.Shape(unsafe.Slice((*int64)(dl.Pointer(st.shape.dims)), st.shape.rank))
}

func notImplemented(format string, args ...any) error {
	return &driver.StatusError{Code: driver.CodeNotImplemented, Message: fmt.Sprintf(format, args...)}
}
