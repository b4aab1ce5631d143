package onward

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/onward-ml/onward/internal/exec"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/onnx"
)

// Code is a status code of ONNX Runtime's API
// (https://onnxruntime.ai/docs/api/c/, OrtErrorCode).
type Code int

// The status codes.
const (
	OK                Code = 0
	Fail              Code = 1
	InvalidArgument   Code = 2
	NoSuchFile        Code = 3
	NoModel           Code = 4
	EngineError       Code = 5
	RuntimeException  Code = 6
	InvalidProtobuf   Code = 7
	ModelLoaded       Code = 8
	NotImplemented    Code = 9
	InvalidGraph      Code = 10
	ExecutionProvider Code = 11
)

var codeNames = [...]string{"OK", "FAIL", "INVALID_ARGUMENT", "NO_SUCHFILE", "NO_MODEL", "ENGINE_ERROR", "RUNTIME_EXCEPTION",
	"INVALID_PROTOBUF", "MODEL_LOADED", "NOT_IMPLEMENTED", "INVALID_GRAPH", "EP_FAIL"}

// String returns ONNX Runtime's name of the code: INVALID_ARGUMENT.
func (c Code) String() string {
	if c >= 0 && int(c) < len(codeNames) {
		return codeNames[c]
	}
	return fmt.Sprintf("CODE_%d", int(c))
}

// StatusError is an error with one of ONNX Runtime's status codes. Compare with
// errors.Is against [ErrInvalidArgument] and its siblings.
type StatusError struct {
	Code    Code
	Message string
	Err     error // the cause, may be nil
}

// Error writes the error as ONNX Runtime's bindings do:
// "[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : message".
func (e *StatusError) Error() string {
	return fmt.Sprintf("[ONNXRuntimeError] : %d : %s : %s", int(e.Code), e.Code, e.Message)
}

// Unwrap returns the cause.
func (e *StatusError) Unwrap() error { return e.Err }

// Is reports whether target is the sentinel of the error's code.
func (e *StatusError) Is(target error) bool {
	t, ok := target.(*StatusError)
	return ok && t.Message == "" && t.Err == nil && t.Code == e.Code
}

// One error for each status code, for errors.Is.
var (
	ErrFail             error = &StatusError{Code: Fail}
	ErrInvalidArgument  error = &StatusError{Code: InvalidArgument}
	ErrNoSuchFile       error = &StatusError{Code: NoSuchFile}
	ErrNoModel          error = &StatusError{Code: NoModel}
	ErrEngine           error = &StatusError{Code: EngineError}
	ErrRuntimeException error = &StatusError{Code: RuntimeException}
	ErrInvalidProtobuf  error = &StatusError{Code: InvalidProtobuf}
	ErrModelLoaded      error = &StatusError{Code: ModelLoaded}
	ErrNotImplemented   error = &StatusError{Code: NotImplemented}
	ErrInvalidGraph     error = &StatusError{Code: InvalidGraph}
	ErrExecution        error = &StatusError{Code: ExecutionProvider}
)

// ErrMemoryLimit is in the chain of an error when a run would pass
// [Limits.MaxMemory].
var ErrMemoryLimit = exec.ErrMemoryLimit

func statusf(c Code, format string, args ...any) *StatusError {
	err := fmt.Errorf(format, args...)
	return &StatusError{Code: c, Message: err.Error(), Err: errors.Unwrap(err)}
}

// loadStatus gives an error of loading a model its status code.
func loadStatus(err error) error {
	var st *StatusError
	var parse *onnx.ParseError
	var unsupported *ops.UnsupportedError
	switch {
	case err == nil || errors.As(err, &st):
		return err
	case errors.Is(err, onnx.ErrMappedFile):
		return &StatusError{Code: Fail, Message: "Load model failed: " + err.Error(), Err: err}
	case errors.Is(err, fs.ErrNotExist):
		return &StatusError{Code: NoSuchFile, Message: "Load model failed: " + err.Error(), Err: err}
	case errors.As(err, &parse):
		return &StatusError{Code: InvalidProtobuf, Message: "Load model failed: " + err.Error(), Err: err}
	case errors.As(err, &unsupported):
		return &StatusError{Code: NotImplemented, Message: err.Error(), Err: err}
	}
	return &StatusError{Code: InvalidGraph, Message: "This is an invalid model. " + err.Error(), Err: err}
}

// runStatus gives an error of a run its status code; a cancelled context stays
// recognizable through errors.Is.
func runStatus(err error) error {
	if err == nil {
		return nil
	}
	var st *StatusError
	switch {
	case errors.As(err, &st):
		return err
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return &StatusError{Code: Fail, Message: "the run was stopped: " + err.Error(), Err: err}
	}
	return &StatusError{Code: RuntimeException, Message: err.Error(), Err: err}
}
