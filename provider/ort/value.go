package ort

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/dl"
	"github.com/onward-ml/onward/provider/internal/native"
	"github.com/onward-ml/onward/tensor"
)

// The values of ONNXType.
const (
	kindTensor   = 1
	kindSequence = 2
	kindMap      = 3
	kindSparse   = 5
)

// sinceOwnNumbers is the first version that reads element types as the values of its own
// ONNXTensorElementDataType. Earlier versions read ONNX's values, which differ after
// float4e2m1. All versions write the values of the header.
const sinceOwnNumbers = 31

// elementType returns ONNX Runtime's value of an element type. It fails for the 6-bit
// types, which no release supports: their values are undefined or mean another type.
func (r *library) elementType(d tensor.DType) (uintptr, error) {
	switch {
	case d == tensor.TypeFloat6E2M3 || d == tensor.TypeFloat6E3M2:
		return 0, &driver.StatusError{Code: driver.CodeNotImplemented,
			Message: fmt.Sprintf("ONNX Runtime %s does not support element type %s", r.version, d)}
	case r.api < sinceOwnNumbers:
		return uintptr(d), nil
	case d == tensor.TypeUint2:
		return 24, nil
	case d == tensor.TypeInt2:
		return 25, nil
	case d == tensor.TypeFloat8E8M0:
		return 26, nil
	}
	return uintptr(d), nil
}

func dtypeOf(n int32) (tensor.DType, error) {
	d := tensor.DType(n)
	switch {
	case n == 24:
		d = tensor.TypeUint2
	case n == 25:
		d = tensor.TypeInt2
	case n == 26:
		d = tensor.TypeFloat8E8M0
	case n <= 0 || n > 26:
		return 0, fmt.Errorf("unknown element type %d from ONNX Runtime", n)
	}
	return d, nil
}

var noData byte // empty tensors point to it

// value creates an OrtValue for a value of the declared type. Numeric tensors share their
// memory with it, which the caller must keep alive. The caller releases the OrtValue.
func (r *library) value(st *state, v tensor.Value, typ tensor.Type) (uintptr, error) {
	switch v := v.(type) {
	case *tensor.Tensor:
		return r.tensorValue(st, v)
	case *tensor.Sequence:
		return r.sequenceValue(st, v, typ)
	case *tensor.Map:
		return r.composite(st, kindMap, typ, v.Keys, v.Values)
	case *tensor.Optional:
		if v.Value == nil {
			return 0, fmt.Errorf("%s without value cannot be passed to ONNX Runtime", v.Type())
		}
		of := v.Elem
		if typ.Of != nil {
			of = *typ.Of
		}
		return r.value(st, v.Value, of)
	case *tensor.Sparse:
		return r.sparseValue(st, v)
	}
	return 0, fmt.Errorf("value of Go type %T cannot be passed to ONNX Runtime", v)
}

func (st *state) shape(dims []int) []int64 {
	st.dims = st.dims[:0]
	for _, d := range dims {
		st.dims = append(st.dims, int64(d))
	}
	return st.dims
}

func (r *library) tensorValue(st *state, t *tensor.Tensor) (uintptr, error) {
	dims := st.shape(t.Shape())
	st.res = 0
	if t.DType() == tensor.TypeString {
		return r.stringValue(st, t)
	}
	data := unsafe.Pointer(&noData)
	if len(t.Bytes()) > 0 {
		data = dl.Array(t.Bytes())
	}
	elem, err := r.elementType(t.DType())
	if err != nil {
		return 0, err
	}
	err = r.do(fnCreateTensorWithDataAsOrtValue, r.cpu, uintptr(data), uintptr(len(t.Bytes())),
		uintptr(dl.Array(dims)), uintptr(len(dims)), elem, uintptr(unsafe.Pointer(&st.res)))
	return st.res, err
}

// stringValue copies a tensor of strings, which may contain NULs, to a new OrtValue.
func (r *library) stringValue(st *state, t *tensor.Tensor) (uintptr, error) {
	dims := st.shape(t.Shape())
	if err := r.do(fnCreateTensorAsOrtValue, r.allocator, uintptr(dl.Array(dims)), uintptr(len(dims)),
		uintptr(tensor.TypeString), uintptr(unsafe.Pointer(&st.res))); err != nil {
		return 0, err
	}
	h := st.res
	if err := r.fillStrings(st, h, t); err != nil {
		r.release(fnReleaseValue, h)
		return 0, err
	}
	return h, nil
}

// fillStrings copies the strings of t to the OrtValue h.
func (r *library) fillStrings(st *state, h uintptr, t *tensor.Tensor) error {
	for i, s := range tensor.MustData[string](t) {
		if err := r.do(fnGetResizedStringTensorElementBuffer, h, uintptr(i), uintptr(len(s)),
			uintptr(unsafe.Pointer(&st.res2))); err != nil {
			return err
		}
		copy(dl.Bytes(st.res2, len(s)), s)
	}
	return nil
}

// composite creates a sequence or map OrtValue from its items.
func (r *library) composite(st *state, kind uintptr, typ tensor.Type, items ...tensor.Value) (uintptr, error) {
	handles := make([]uintptr, 0, len(items))
	defer func() {
		for _, h := range handles {
			r.release(fnReleaseValue, h)
		}
	}()
	var of tensor.Type
	if typ.Of != nil {
		of = *typ.Of
	}
	for i, it := range items {
		h, err := r.value(st, it, of)
		if err != nil {
			return 0, fmt.Errorf("item %d: %w", i, err)
		}
		handles = append(handles, h)
	}
	st.res = 0
	err := r.do(fnCreateValue, uintptr(dl.Array(handles)), uintptr(len(handles)), kind,
		uintptr(unsafe.Pointer(&st.res)))
	return st.res, err
}

func (r *library) sequenceValue(st *state, s *tensor.Sequence, typ tensor.Type) (uintptr, error) {
	if len(s.Items) == 0 {
		if typ.Of == nil || typ.Of.Kind == tensor.KindInvalid {
			typ = s.Type()
		}
		return r.emptySequence(typ)
	}
	return r.composite(st, kindSequence, typ, s.Items...)
}

// sparseValue creates a sparse OrtValue in coordinate format; ONNX Runtime copies the data.
func (r *library) sparseValue(st *state, s *tensor.Sparse) (uintptr, error) {
	if s.Values.DType() == tensor.TypeString {
		return 0, errors.New("sparse tensors of strings cannot be passed to ONNX Runtime")
	}
	elem, err := r.elementType(s.Values.DType())
	if err != nil {
		return 0, err
	}
	dims := st.shape(s.Shape)
	st.res = 0
	if err := r.do(fnCreateSparseTensorAsOrtValue, r.allocator, uintptr(dl.Array(dims)), uintptr(len(dims)), elem,
		uintptr(unsafe.Pointer(&st.res))); err != nil {
		return 0, err
	}
	h := st.res
	nnz := []int64{int64(s.Values.Len())}
	ix := tensor.MustData[int64](s.Indices)
	data, indices := unsafe.Pointer(&noData), unsafe.Pointer(&noData)
	if len(ix) > 0 {
		data, indices = dl.Array(s.Values.Bytes()), dl.Array(ix)
	}
	if err := r.do(fnFillSparseTensorCoo, h, r.cpu, uintptr(dl.Array(nnz)), 1, uintptr(data), uintptr(indices),
		uintptr(len(ix))); err != nil {
		r.release(fnReleaseValue, h)
		return 0, err
	}
	return h, nil
}

// result converts an OrtValue to a Go value. A tensor is copied to given if type and shape
// match.
func (r *library) result(st *state, h uintptr, typ tensor.Type, given tensor.Value) (tensor.Value, error) {
	if typ.Kind == tensor.KindOptional {
		o := &tensor.Optional{Elem: *typ.Of}
		if err := r.do(fnHasValue, h, uintptr(unsafe.Pointer(&st.i32))); err != nil {
			return nil, err
		}
		if st.i32 == 0 {
			return o, nil
		}
		v, err := r.result(st, h, *typ.Of, nil)
		if err != nil {
			return nil, err
		}
		o.Value = v
		return o, nil
	}
	kind := int32(kindTensor)
	if typ.Kind != tensor.KindTensor {
		// A model may omit that an output is optional; GetValueType dereferences a null pointer
		// for an optional without value.
		if err := r.do(fnHasValue, h, uintptr(unsafe.Pointer(&st.i32))); err != nil {
			return nil, err
		}
		if st.i32 == 0 {
			return &tensor.Optional{Elem: typ}, nil
		}
		if err := r.do(fnGetValueType, h, uintptr(unsafe.Pointer(&st.i32))); err != nil {
			return nil, err
		}
		kind = st.i32
	}
	switch kind {
	case kindTensor:
		t, _ := given.(*tensor.Tensor)
		return r.tensorResult(st, h, t)
	case kindSequence:
		return r.sequenceResult(st, h, typ)
	case kindMap:
		items, err := r.items(st, h, []tensor.Type{{}, {}})
		if err != nil {
			return nil, err
		}
		keys, ok := items[0].(*tensor.Tensor)
		if !ok {
			return nil, fmt.Errorf("map keys must be a tensor, got %s", items[0].Type())
		}
		return tensor.NewMap(keys, items[1])
	case kindSparse:
		return r.sparseResult(st, h)
	}
	return nil, fmt.Errorf("unknown value kind %d from ONNX Runtime", kind)
}

func (r *library) sequenceResult(st *state, h uintptr, typ tensor.Type) (tensor.Value, error) {
	if err := r.do(fnGetValueCount, h, uintptr(unsafe.Pointer(&st.res))); err != nil {
		return nil, err
	}
	s := &tensor.Sequence{}
	if typ.Of != nil {
		s.Elem = *typ.Of
	}
	types := make([]tensor.Type, st.res)
	for i := range types {
		types[i] = s.Elem
	}
	items, err := r.items(st, h, types)
	if err != nil {
		return nil, err
	}
	if s.Items = items; len(items) > 0 {
		s.Elem = items[0].Type()
	}
	return s, nil
}

// items returns the items of a sequence, or the keys and values of a map. ONNX Runtime
// copies them.
func (r *library) items(st *state, h uintptr, types []tensor.Type) ([]tensor.Value, error) {
	out := make([]tensor.Value, len(types))
	for i, typ := range types {
		st.res = 0
		if err := r.do(fnGetValue, h, uintptr(i), r.allocator, uintptr(unsafe.Pointer(&st.res))); err != nil {
			return nil, fmt.Errorf("item %d: %w", i, err)
		}
		item := st.res
		v, err := r.result(st, item, typ, nil)
		r.release(fnReleaseValue, item)
		if err != nil {
			return nil, fmt.Errorf("item %d: %w", i, err)
		}
		out[i] = v
	}
	return out, nil
}

// typeAndShape returns the element type and the shape of a tensor, or of the dense form of
// a sparse tensor.
func (r *library) typeAndShape(st *state, h uintptr) (tensor.DType, []int, error) {
	if r.api >= sinceShapeRefs {
		if err := r.do(fnGetTensorElementTypeAndShapeDataRefs, h, uintptr(unsafe.Pointer(&st.i32)),
			uintptr(unsafe.Pointer(&st.res)), uintptr(unsafe.Pointer(&st.res2))); err == nil {
			return shapeOf(st.i32, unsafe.Slice((*int64)(dl.Pointer(st.res)), st.res2))
		}
	}
	return r.infoOf(st, func(out uintptr) error { return r.do(fnGetTensorTypeAndShape, h, out) })
}

// infoOf reads and releases the OrtTensorTypeAndShapeInfo that get creates.
func (r *library) infoOf(st *state, get func(out uintptr) error) (tensor.DType, []int, error) {
	if err := get(uintptr(unsafe.Pointer(&st.res))); err != nil { // st is on the heap, which does not move
		return 0, nil, err
	}
	info := st.res
	defer r.release(fnReleaseTensorTypeAndShapeInfo, info)
	if err := r.do(fnGetDimensionsCount, info, uintptr(unsafe.Pointer(&st.res2))); err != nil {
		return 0, nil, err
	}
	dims := make([]int64, st.res2)
	if err := r.do(fnGetDimensions, info, uintptr(dl.Array(dims)), uintptr(len(dims))); err != nil {
		return 0, nil, err
	}
	if err := r.do(fnGetTensorElementType, info, uintptr(unsafe.Pointer(&st.i32))); err != nil {
		return 0, nil, err
	}
	return shapeOf(st.i32, dims)
}

func shapeOf(elem int32, dims []int64) (tensor.DType, []int, error) {
	d, err := dtypeOf(elem)
	if err != nil {
		return 0, nil, err
	}
	shape, err := native.Shape(dims)
	return d, shape, err
}

func (r *library) tensorResult(st *state, h uintptr, given *tensor.Tensor) (*tensor.Tensor, error) {
	d, shape, err := r.typeAndShape(st, h)
	if err != nil {
		return nil, err
	}
	t := given
	if t == nil || t.DType() != d || !sameShape(t.Shape(), shape) {
		if t, err = tensor.Zeros(d, shape...); err != nil {
			return nil, err
		}
	}
	switch {
	case t.Len() == 0:
		return t, nil
	case d == tensor.TypeString:
		return t, r.strings(st, h, tensor.MustData[string](t))
	}
	if err := r.do(fnGetTensorMutableData, h, uintptr(unsafe.Pointer(&st.res))); err != nil {
		return nil, err
	}
	copy(t.Bytes(), dl.Bytes(st.res, len(t.Bytes())))
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

// strings copies the strings of a tensor to out. ONNX Runtime returns them as one buffer
// and the offset of each string.
func (r *library) strings(st *state, h uintptr, out []string) error {
	if err := r.do(fnGetStringTensorDataLength, h, uintptr(unsafe.Pointer(&st.res))); err != nil {
		return err
	}
	buf := make([]byte, int(st.res)+1)
	offsets := make([]uintptr, len(out))
	if err := r.do(fnGetStringTensorContent, h, uintptr(dl.Array(buf)), st.res, uintptr(dl.Array(offsets)),
		uintptr(len(offsets))); err != nil {
		return err
	}
	all := string(buf[:len(buf)-1])
	for i := range out {
		end := uintptr(len(all))
		if i+1 < len(out) {
			end = offsets[i+1]
		}
		if offsets[i] > end || end > uintptr(len(all)) {
			return fmt.Errorf("invalid offsets from ONNX Runtime: string %d spans bytes %d to %d of %d", i,
				offsets[i], end, len(all))
		}
		out[i] = all[offsets[i]:end]
	}
	return nil
}

func (r *library) sparseResult(st *state, h uintptr) (tensor.Value, error) {
	const coo, cooIndices = 1, 0
	if err := r.do(fnGetSparseTensorFormat, h, uintptr(unsafe.Pointer(&st.i32))); err != nil {
		return nil, err
	}
	if st.i32 != coo {
		return nil, fmt.Errorf("sparse tensor from ONNX Runtime has format %d, want coordinates (1)", st.i32)
	}
	d, shape, err := r.infoOf(st, func(out uintptr) error { return r.do(fnGetTensorTypeAndShape, h, out) })
	if err != nil {
		return nil, err
	}
	_, nnz, err := r.infoOf(st, func(out uintptr) error { return r.do(fnGetSparseTensorValuesTypeAndShape, h, out) })
	if err != nil {
		return nil, err
	}
	_, indexShape, err := r.infoOf(st, func(out uintptr) error {
		return r.do(fnGetSparseTensorIndicesTypeShape, h, cooIndices, out)
	})
	if err != nil {
		return nil, err
	}
	values, err := tensor.Zeros(d, nnz...)
	if err != nil {
		return nil, err
	}
	indices, err := tensor.Zeros(tensor.TypeInt64, indexShape...)
	if err != nil {
		return nil, err
	}
	if d == tensor.TypeString {
		return nil, errors.New("sparse tensors of strings cannot be read from ONNX Runtime")
	}
	if values.Len() > 0 {
		if err := r.do(fnGetSparseTensorValues, h, uintptr(unsafe.Pointer(&st.res))); err != nil {
			return nil, err
		}
		copy(values.Bytes(), dl.Bytes(st.res, len(values.Bytes())))
		if err := r.do(fnGetSparseTensorIndices, h, cooIndices, uintptr(unsafe.Pointer(&st.res2)),
			uintptr(unsafe.Pointer(&st.res))); err != nil {
			return nil, err
		}
		copy(indices.Bytes(), dl.Bytes(st.res, min(len(indices.Bytes()), int(st.res2)*8)))
	}
	return tensor.NewSparse(values, indices, shape...)
}
