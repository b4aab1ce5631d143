package onward

import (
	"context"
	"errors"
	"io/fs"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/goengine"
	"github.com/onward-ml/onward/onnx"
)

// The status codes.
const (
	OK                = driver.OK
	Fail              = driver.Fail
	InvalidArgument   = driver.InvalidArgument
	NoSuchFile        = driver.NoSuchFile
	NoModel           = driver.NoModel
	EngineError       = driver.EngineError
	RuntimeException  = driver.RuntimeException
	InvalidProtobuf   = driver.InvalidProtobuf
	ModelLoaded       = driver.ModelLoaded
	NotImplemented    = driver.NotImplemented
	InvalidGraph      = driver.InvalidGraph
	ExecutionProvider = driver.ExecutionProvider
)

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

// ErrMemoryLimit is in the chain of an error if a run would pass
// [Limits.MaxMemory].
var ErrMemoryLimit = goengine.ErrMemoryLimit

func statusf(c Code, format string, args ...any) *StatusError {
	return driver.Errorf(c, format, args...)
}

// invalid gives an error the status INVALID_ARGUMENT.
func invalid(err error) error {
	return &StatusError{Code: InvalidArgument, Message: err.Error(), Err: err}
}

// loadStatus gives an error of loading a model its status code.
func loadStatus(err error) error {
	var st *StatusError
	var parse *onnx.ParseError
	switch {
	case err == nil || errors.As(err, &st):
		return err
	case stopped(err):
		return &StatusError{Code: Fail, Message: "the loading was stopped: " + err.Error(), Err: err}
	case errors.Is(err, onnx.ErrMappedFile):
		return &StatusError{Code: Fail, Message: "Load model failed: " + err.Error(), Err: err}
	case errors.Is(err, fs.ErrNotExist):
		return &StatusError{Code: NoSuchFile, Message: "Load model failed: " + err.Error(), Err: err}
	case errors.As(err, &parse):
		return &StatusError{Code: InvalidProtobuf, Message: "Load model failed: " + err.Error(), Err: err}
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
	case stopped(err):
		return &StatusError{Code: Fail, Message: "the run was stopped: " + err.Error(), Err: err}
	}
	return &StatusError{Code: RuntimeException, Message: err.Error(), Err: err}
}

// stopped reports whether a context that has ended is the cause of an error.
func stopped(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
