package driver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/onnx"
)

// Code is an error code of ONNX Runtime's API
// (https://onnxruntime.ai/docs/api/c/, OrtErrorCode).
type Code int

// The status codes.
const (
	CodeOK                Code = 0
	CodeFail              Code = 1
	CodeInvalidArgument   Code = 2
	CodeNoSuchFile        Code = 3
	CodeNoModel           Code = 4
	CodeEngineError       Code = 5
	CodeRuntimeException  Code = 6
	CodeInvalidProtobuf   Code = 7
	CodeModelLoaded       Code = 8
	CodeNotImplemented    Code = 9
	CodeInvalidGraph      Code = 10
	CodeExecutionProvider Code = 11
)

var codeNames = [...]string{"OK", "FAIL", "INVALID_ARGUMENT", "NO_SUCHFILE", "NO_MODEL", "ENGINE_ERROR",
	"RUNTIME_EXCEPTION",
	"INVALID_PROTOBUF", "MODEL_LOADED", "NOT_IMPLEMENTED", "INVALID_GRAPH", "EP_FAIL"}

// String returns ONNX Runtime's name of the code, such as "INVALID_ARGUMENT".
func (c Code) String() string {
	if c >= 0 && int(c) < len(codeNames) {
		return codeNames[c]
	}
	return fmt.Sprintf("CODE_%d", int(c))
}

// StatusError is an error with one of ONNX Runtime's status codes. To test for a code,
// use errors.Is with onward.ErrInvalidArgument or the error of another code there.
type StatusError struct {
	Code    Code
	Message string
	Err     error // cause; may be nil
	// Hint says what helps, such as the names that the model has. It is not part of the
	// message, whose text is ONNX Runtime's; the verb %+v prints both.
	Hint string
}

// Error formats the error as ONNX Runtime's bindings do:
// "[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : message".
func (e *StatusError) Error() string {
	return fmt.Sprintf("[ONNXRuntimeError] : %d : %s : %s", int(e.Code), e.Code, e.Message)
}

// Format implements [fmt.Formatter]. %+v adds the hint on a line of its own.
func (e *StatusError) Format(s fmt.State, verb rune) {
	type plain StatusError // without Format and Error
	switch {
	case verb == 'v' && s.Flag('+') && e.Hint != "":
		fmt.Fprintf(s, "%s\n%s", e.Error(), e.Hint)
	case verb == 'v' && s.Flag('#'):
		fmt.Fprintf(s, fmt.FormatString(s, verb), (*plain)(e))
	default:
		fmt.Fprintf(s, fmt.FormatString(s, verb), e.Error())
	}
}

// Unwrap returns the cause.
func (e *StatusError) Unwrap() error { return e.Err }

// Is reports whether target is a [StatusError] of the same code without message and
// cause.
func (e *StatusError) Is(target error) bool {
	t, ok := target.(*StatusError)
	return ok && t.Message == "" && t.Err == nil && t.Code == e.Code
}

// Errorf returns a [StatusError] with the message that [fmt.Errorf] formats. The operand
// of %w becomes its cause.
func Errorf(c Code, format string, args ...any) *StatusError {
	err := fmt.Errorf(format, fail.Cut(args)...)
	return &StatusError{Code: c, Message: err.Error(), Err: errors.Unwrap(err)}
}

// LoadError wraps an error of loading a model in a [StatusError] with the code that ONNX
// Runtime gives it. It returns nil and an error that has a code unchanged.
func LoadError(err error) error {
	var st *StatusError
	var parse *onnx.ParseError
	switch {
	case err == nil || errors.As(err, &st):
		return err
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return &StatusError{Code: CodeFail, Message: "loading was stopped: " + err.Error(), Err: err}
	case errors.Is(err, onnx.ErrMappedFile):
		return &StatusError{Code: CodeFail, Message: "Load model failed: " + err.Error(), Err: err}
	case errors.Is(err, fs.ErrNotExist):
		return &StatusError{Code: CodeNoSuchFile, Message: "Load model failed: " + err.Error(), Err: err}
	case errors.As(err, &parse):
		return &StatusError{Code: CodeInvalidProtobuf, Message: "Load model failed: " + err.Error(), Err: err}
	}
	return &StatusError{Code: CodeInvalidGraph, Message: "This is an invalid model. " + err.Error(), Err: err}
}
