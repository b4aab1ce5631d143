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

	// Optional: not in all releases.
	fnCompileWithProperties // since 2026.4
	fnReadModelUnicode      // Windows
	fnTensorFromStrings     // since 2025.0
	fnProfile
	fnProfileFree

	functions
)

const firstOptional = fnCompileWithProperties

var symbols = [functions]string{
	fnCoreCreate: "ov_core_create", fnGetVersion: "ov_get_openvino_version", fnVersionFree: "ov_version_free",
	fnGetLastError: "ov_get_last_err_msg", fnGetErrorInfo: "ov_get_error_info", fnFree: "ov_free",
	fnGetDevices: "ov_core_get_available_devices", fnDevicesFree: "ov_available_devices_free",
	fnCoreGetProperty: "ov_core_get_property",
	fnReadModel:       "ov_core_read_model", fnReadModelFromMemory: "ov_core_read_model_from_memory_buffer",
	fnModelFree:   "ov_model_free",
	fnReshape:     "ov_model_reshape_by_port_indexes",
	fnModelInputs: "ov_model_inputs_size", fnModelInput: "ov_model_const_input_by_index",
	fnModelOutputs: "ov_model_outputs_size", fnModelOutput: "ov_model_const_output_by_index",
	fnPortName: "ov_port_get_any_name", fnPortElementType: "ov_port_get_element_type",
	fnPortPartialShape:      "ov_port_get_partial_shape",
	fnPartialShapeIsDynamic: "ov_partial_shape_is_dynamic", fnPartialShapeToShape: "ov_partial_shape_to_shape",
	fnPartialShapeFree: "ov_partial_shape_free",
	fnPortFree:         "ov_output_const_port_free",
	fnCompile:          "ov_core_compile_model", fnCompiledFree: "ov_compiled_model_free",
	fnCompiledGetProperty: "ov_compiled_model_get_property",
	fnCompiledInput:       "ov_compiled_model_input_by_index", fnCompiledOutput: "ov_compiled_model_output_by_index",
	fnCreateRequest: "ov_compiled_model_create_infer_request",
	fnSetInput:      "ov_infer_request_set_input_tensor_by_index",
	fnSetOutput:     "ov_infer_request_set_output_tensor_by_index",
	fnGetOutput:     "ov_infer_request_get_output_tensor_by_index", fnStart: "ov_infer_request_start_async",
	fnWait:   "ov_infer_request_wait",
	fnCancel: "ov_infer_request_cancel", fnRequestFree: "ov_infer_request_free",
	fnTensorFromHost: "ov_tensor_create_from_host_ptr", fnTensorFree: "ov_tensor_free", fnTensorData: "ov_tensor_data",
	fnTensorShape: "ov_tensor_get_shape", fnTensorType: "ov_tensor_get_element_type",
	fnTensorByteSize: "ov_tensor_get_byte_size", fnTensorSize: "ov_tensor_get_size",
	fnShapeFree:             "ov_shape_free",
	fnCompileWithProperties: "ov_core_compile_model_props", fnReadModelUnicode: "ov_core_read_model_unicode",
	fnTensorFromStrings: "ov_tensor_create_from_string_array",
	fnProfile:           "ov_infer_request_get_profiling_info", fnProfileFree: "ov_profiling_info_list_free",
}

// The values of ov_status_e that have an error code of their own.
const (
	statusNotImplemented = -2
	statusMismatch       = -4
	statusCancelled      = -13
	statusInvalid        = -14
)

// errCancelled is wrapped by the error of a cancelled run.
var errCancelled = errors.New("the inference was cancelled")

// do calls a function that returns an ov_status_e and converts the status to an error.
//
//go:uintptrescapes
func (r *library) do(f fn, args ...uintptr) error {
	if st := int32(dl.Call(r.table[f], args...)); st != 0 {
		return r.status(f, st)
	}
	return nil
}

// status converts an ov_status_e to an error. OpenVINO keeps one error text per process: if
// two runs fail at the same time, one may get the text of the other.
func (r *library) status(f fn, st int32) error {
	p := dl.Call(r.table[fnGetLastError])
	msg := tidy(dl.String(p))
	if p != 0 {
		dl.Call(r.table[fnFree], p)
	}
	if msg == "" || st == statusInvalid {
		// Errors of the C layer itself do not replace the text of an older error.
		msg = fmt.Sprintf("%s: %s", symbols[f], dl.String(dl.Call(r.table[fnGetErrorInfo], uintptr(uint32(st)))))
	}
	e := &driver.StatusError{Code: driver.CodeFail, Message: msg}
	switch st {
	case statusNotImplemented:
		e.Code = driver.CodeNotImplemented
	case statusMismatch, statusInvalid:
		e.Code = driver.CodeInvalidArgument
	case statusCancelled:
		e.Err = errCancelled
	default:
		for _, phrase := range unsupported {
			if strings.Contains(msg, phrase) {
				e.Code = driver.CodeNotImplemented
			}
		}
	}
	return e
}

// location matches lines that only say where in OpenVINO's source an exception was thrown.
var location = regexp.MustCompile(`^(Exception from .*|Check '.*' failed at .*):$`)

// tidy removes the source locations from an error text.
func tidy(msg string) string {
	var lines []string
	for line := range strings.Lines(msg) {
		if line = strings.TrimSpace(line); line != "" && !location.MatchString(line) {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return strings.TrimSpace(msg)
	}
	return strings.Join(lines, "\n")
}

// unsupported lists the phrases of errors about missing features, which have the general
// status.
var unsupported = []string{
	"Model wasn't fully converted", "OpenVINO does not support the following ONNX operations", "is not supported",
	"not implemented", "Not implemented", "not supported",
	"Unsupported", "unsupported", "doesn't support", "does not support", "No translator found",
}

// free calls a function that frees handle unless it is null.
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

// text copies a string that OpenVINO has allocated and frees it.
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

// shapeArgs returns the arguments that pass an ov_shape_t by value: two registers, or a
// pointer on Windows.
func shapeArgs(s *shape) []uintptr {
	if runtime.GOOS == "windows" {
		return []uintptr{uintptr(unsafe.Pointer(s))}
	}
	return []uintptr{uintptr(s.rank), s.dims}
}

// property is ov_property_t.
type property struct{ key, value *byte }

// maxVariadic is the number of properties that fit in the variadic call: the arguments
// that [dl.Call] supports, less the fixed ones.
const maxVariadic = 5

// compile creates an ov_compiled_model_t with properties names and values.
func (r *library) compile(model uintptr, device string, names, values []string) (compiled uintptr, err error) {
	dev := dl.CString(device)
	if r.table[fnCompileWithProperties] != 0 {
		props := make([]property, len(names))
		for i := range names {
			props[i] = property{dl.CString(names[i]), dl.CString(values[i])}
		}
		dl.KeepSignalStack(func() {
			err = r.do(fnCompileWithProperties, r.core, model, uintptr(unsafe.Pointer(dev)), uintptr(len(props)),
				uintptr(dl.Array(props)), uintptr(unsafe.Pointer(&compiled)))
		})
		runtime.KeepAlive(props)
		return compiled, err
	}
	if len(names) > maxVariadic {
		return 0, &driver.StatusError{Code: driver.CodeInvalidArgument,
			Message: fmt.Sprintf(
				"the options set %d properties (%s); OpenVINO %s supports at most %d, 2026.4 and later any number",
				len(names), strings.Join(names, ", "), r.version, maxVariadic)}
	}
	args := []uintptr{r.core, model, uintptr(unsafe.Pointer(dev)), uintptr(2 * len(names)),
		uintptr(unsafe.Pointer(&compiled))}
	if runtime.GOOS == "darwin" && runtime.GOARCH == "arm64" {
		args = append(args, 0, 0, 0) // variadic arguments are on the stack: eight others fill the registers
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
