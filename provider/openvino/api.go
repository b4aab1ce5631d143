package openvino

import (
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"unsafe"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/dl"
)

// fn is a function of OpenVINO's C API (openvino/c/openvino.h).
type fn int

const (
	fnCoreCreate fn = iota
	fnGetVersion
	fnVersionFree
	fnGetLastError
	fnGetErrorInfo
	fnFree
	fnGetDevices
	fnDevicesFree
	fnCoreGetProperty
	fnReadModel
	fnReadModelFromMemory
	fnModelFree
	fnReshape
	fnModelInputs
	fnModelInput
	fnModelOutputs
	fnModelOutput
	fnPortName
	fnPortElementType
	fnPortPartialShape
	fnPartialShapeIsDynamic
	fnPartialShapeToShape
	fnPartialShapeFree
	fnPortFree
	fnCompile
	fnCompiledFree
	fnCompiledGetProperty
	fnCompiledInput
	fnCompiledOutput
	fnCreateRequest
	fnSetInput
	fnSetOutput
	fnGetOutput
	fnStart
	fnWait
	fnCancel
	fnRequestFree
	fnTensorFromHost
	fnTensorFree
	fnTensorData
	fnTensorShape
	fnTensorType
	fnTensorByteSize
	fnTensorSize
	fnShapeFree

	// Not in all releases.
	fnCompileWithProperties // since 2026.4
	fnReadModelUnicode      // Windows
	fnTensorFromStrings     // since 2025.0

	functions
)

const firstOptional = fnCompileWithProperties

var symbols = [functions]string{
	fnCoreCreate: "ov_core_create", fnGetVersion: "ov_get_openvino_version", fnVersionFree: "ov_version_free",
	fnGetLastError: "ov_get_last_err_msg", fnGetErrorInfo: "ov_get_error_info", fnFree: "ov_free",
	fnGetDevices: "ov_core_get_available_devices", fnDevicesFree: "ov_available_devices_free", fnCoreGetProperty: "ov_core_get_property",
	fnReadModel: "ov_core_read_model", fnReadModelFromMemory: "ov_core_read_model_from_memory_buffer", fnModelFree: "ov_model_free",
	fnReshape:     "ov_model_reshape_by_port_indexes",
	fnModelInputs: "ov_model_inputs_size", fnModelInput: "ov_model_const_input_by_index",
	fnModelOutputs: "ov_model_outputs_size", fnModelOutput: "ov_model_const_output_by_index",
	fnPortName: "ov_port_get_any_name", fnPortElementType: "ov_port_get_element_type", fnPortPartialShape: "ov_port_get_partial_shape",
	fnPartialShapeIsDynamic: "ov_partial_shape_is_dynamic", fnPartialShapeToShape: "ov_partial_shape_to_shape", fnPartialShapeFree: "ov_partial_shape_free",
	fnPortFree: "ov_output_const_port_free",
	fnCompile:  "ov_core_compile_model", fnCompiledFree: "ov_compiled_model_free", fnCompiledGetProperty: "ov_compiled_model_get_property",
	fnCompiledInput: "ov_compiled_model_input_by_index", fnCompiledOutput: "ov_compiled_model_output_by_index",
	fnCreateRequest: "ov_compiled_model_create_infer_request",
	fnSetInput:      "ov_infer_request_set_input_tensor_by_index", fnSetOutput: "ov_infer_request_set_output_tensor_by_index",
	fnGetOutput: "ov_infer_request_get_output_tensor_by_index", fnStart: "ov_infer_request_start_async", fnWait: "ov_infer_request_wait",
	fnCancel: "ov_infer_request_cancel", fnRequestFree: "ov_infer_request_free",
	fnTensorFromHost: "ov_tensor_create_from_host_ptr", fnTensorFree: "ov_tensor_free", fnTensorData: "ov_tensor_data",
	fnTensorShape: "ov_tensor_get_shape", fnTensorType: "ov_tensor_get_element_type", fnTensorByteSize: "ov_tensor_get_byte_size", fnTensorSize: "ov_tensor_get_size",
	fnShapeFree:             "ov_shape_free",
	fnCompileWithProperties: "ov_core_compile_model_props", fnReadModelUnicode: "ov_core_read_model_unicode",
	fnTensorFromStrings: "ov_tensor_create_from_string_array",
}

// The values of ov_status_e that mean something of their own here.
const (
	statusNotImplemented = -2
	statusMismatch       = -4
	statusCancelled      = -13
	statusInvalid        = -14
)

// errCancelled is in the chain of the error of a run that was cancelled.
var errCancelled = errors.New("the inference was cancelled")

// do calls a function that returns an ov_status_e.
//
//go:uintptrescapes
func (r *library) do(f fn, args ...uintptr) error {
	if st := int32(dl.Call(r.table[f], args...)); st != 0 {
		return r.status(f, st)
	}
	return nil
}

// status makes an error. OpenVINO keeps the text of the last error for the whole
// process: of two runs that fail at the same time, one may get the other's.
func (r *library) status(f fn, st int32) error {
	p := dl.Call(r.table[fnGetLastError])
	msg := tidy(dl.String(p))
	if p != 0 {
		dl.Call(r.table[fnFree], p)
	}
	if msg == "" || st == statusInvalid {
		// The C layer's own refusals leave the text of an older error.
		msg = fmt.Sprintf("%s: %s", symbols[f], dl.String(dl.Call(r.table[fnGetErrorInfo], uintptr(uint32(st)))))
	}
	e := &driver.StatusError{Code: driver.Fail, Message: msg}
	switch st {
	case statusNotImplemented:
		e.Code = driver.NotImplemented
	case statusMismatch, statusInvalid:
		e.Code = driver.InvalidArgument
	case statusCancelled:
		e.Err = errCancelled
	default:
		for _, words := range lacks {
			if strings.Contains(msg, words) {
				e.Code = driver.NotImplemented
			}
		}
	}
	return e
}

// passage are the lines that only tell where in OpenVINO's source an exception was
// thrown and passed.
var passage = regexp.MustCompile(`^(Exception from .*|Check '.*' failed at .*):$`)

func tidy(msg string) string {
	var lines []string
	for line := range strings.Lines(msg) {
		if line = strings.TrimSpace(line); line != "" && !passage.MatchString(line) {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return strings.TrimSpace(msg)
	}
	return strings.Join(lines, "\n")
}

// lacks are the words by which OpenVINO says that it does not have something: its
// status is the general one then.
var lacks = []string{
	"Model wasn't fully converted", "OpenVINO does not support the following ONNX operations", "is not supported", "not implemented", "Not implemented", "not supported",
	"Unsupported", "unsupported", "doesn't support", "does not support", "No translator found",
}

// free calls a function that frees; null is left alone.
func (r *library) free(f fn, handle uintptr) {
	if handle != 0 {
		dl.Call(r.table[f], handle)
	}
}

func (r *library) freeAll(f fn, handles []uintptr) {
	for _, h := range handles {
		r.free(f, h)
	}
}

// text takes a string that OpenVINO has allocated.
func (r *library) text(p uintptr) string {
	s := dl.String(p)
	r.free(fnFree, p)
	return s
}

// shape is ov_shape_t.
type shape struct {
	rank int64
	dims uintptr
}

// shapeArgs is how a function takes an ov_shape_t by value: in two registers, on
// Windows by reference.
func shapeArgs(s *shape) []uintptr {
	if runtime.GOOS == "windows" {
		return []uintptr{uintptr(unsafe.Pointer(s))}
	}
	return []uintptr{uintptr(s.rank), s.dims}
}

// property is ov_property_t.
type property struct{ key, value *byte }

// maxVariadic is how many properties the variadic function gets: what [dl.Call]
// takes, less its own arguments.
const maxVariadic = 5

// compile makes a compiled model.
func (r *library) compile(model uintptr, device string, names, values []string) (compiled uintptr, err error) {
	dev := dl.CString(device)
	if r.table[fnCompileWithProperties] != 0 {
		props := make([]property, len(names))
		for i := range names {
			props[i] = property{dl.CString(names[i]), dl.CString(values[i])}
		}
		dl.KeepSignalStack(func() {
			err = r.do(fnCompileWithProperties, r.core, model, uintptr(unsafe.Pointer(dev)), uintptr(len(props)), uintptr(dl.Array(props)), uintptr(unsafe.Pointer(&compiled)))
		})
		runtime.KeepAlive(props)
		return compiled, err
	}
	if len(names) > maxVariadic {
		return 0, &driver.StatusError{Code: driver.InvalidArgument,
			Message: fmt.Sprintf("the options make %d properties (%s); OpenVINO %s takes at most %d, 2026.4 and later any number", len(names), strings.Join(names, ", "), r.version, maxVariadic)}
	}
	args := []uintptr{r.core, model, uintptr(unsafe.Pointer(dev)), uintptr(2 * len(names)), uintptr(unsafe.Pointer(&compiled))}
	if runtime.GOOS == "darwin" && runtime.GOARCH == "arm64" {
		args = append(args, 0, 0, 0) // variadic arguments lie on the stack: eight others fill the registers
	}
	var keep []*byte
	for i := range names {
		k, v := dl.CString(names[i]), dl.CString(values[i])
		keep = append(keep, k, v)
		args = append(args, uintptr(unsafe.Pointer(k)), uintptr(unsafe.Pointer(v)))
	}
	dl.KeepSignalStack(func() { err = r.do(fnCompile, args...) })
	runtime.KeepAlive(dev)
	runtime.KeepAlive(keep)
	return compiled, err
}
