package onward

import (
	"context"
	"errors"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/goengine"
)

// The status codes of ONNX Runtime's API.
const (
	CodeOK                = driver.CodeOK
	CodeFail              = driver.CodeFail
	CodeInvalidArgument   = driver.CodeInvalidArgument
	CodeNoSuchFile        = driver.CodeNoSuchFile
	CodeNoModel           = driver.CodeNoModel
	CodeEngineError       = driver.CodeEngineError
	CodeRuntimeException  = driver.CodeRuntimeException
	CodeInvalidProtobuf   = driver.CodeInvalidProtobuf
	CodeModelLoaded       = driver.CodeModelLoaded
	CodeNotImplemented    = driver.CodeNotImplemented
	CodeInvalidGraph      = driver.CodeInvalidGraph
	CodeExecutionProvider = driver.CodeExecutionProvider
)

// These errors stand for the status codes. errors.Is reports whether an error has the
// code of one of them: errors.Is(err, onward.ErrNoSuchFile).
var (
	ErrFail             error = &StatusError{Code: CodeFail}
	ErrInvalidArgument  error = &StatusError{Code: CodeInvalidArgument}
	ErrNoSuchFile       error = &StatusError{Code: CodeNoSuchFile}
	ErrNoModel          error = &StatusError{Code: CodeNoModel}
	ErrEngine           error = &StatusError{Code: CodeEngineError}
	ErrRuntimeException error = &StatusError{Code: CodeRuntimeException}
	ErrInvalidProtobuf  error = &StatusError{Code: CodeInvalidProtobuf}
	ErrModelLoaded      error = &StatusError{Code: CodeModelLoaded}
	ErrNotImplemented   error = &StatusError{Code: CodeNotImplemented}
	ErrInvalidGraph     error = &StatusError{Code: CodeInvalidGraph}
	ErrExecution        error = &StatusError{Code: CodeExecutionProvider}
)

// ErrMemoryLimit is the error of a run that would exceed [Limits.MaxMemory]. errors.Is
// finds it in the error that the run returns.
var ErrMemoryLimit = goengine.ErrMemoryLimit

// ErrMemoryBudget is the error of a run that the [MemoryBudget] in [Limits] has no memory left for.
// errors.Is finds it in the error that the run returns.
var ErrMemoryBudget = driver.ErrMemoryBudget

// NewMemoryBudget returns a budget of some bytes for [Limits]; 0 selects half of the machine's
// memory.
func NewMemoryBudget(bytes int64) *MemoryBudget { return driver.NewMemoryBudget(bytes) }

func statusf(c Code, format string, args ...any) *StatusError {
	return driver.Errorf(c, format, args...)
}

// invalid wraps an error in a [StatusError] with the code INVALID_ARGUMENT.
func invalid(err error) error {
	return &StatusError{Code: CodeInvalidArgument, Message: err.Error(), Err: err}
}

// runStatus wraps an error of a run in a [StatusError]. errors.Is still finds the error
// of a context that is done.
func runStatus(err error) error {
	if err == nil {
		return nil
	}
	var st *StatusError
	switch {
	case errors.As(err, &st):
		return err
	case stopped(err):
		return &StatusError{Code: CodeFail, Message: "the run was stopped: " + err.Error(), Err: err}
	}
	return &StatusError{Code: CodeRuntimeException, Message: err.Error(), Err: err}
}

// stopped reports whether the cause of an error is a context that is done.
func stopped(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
