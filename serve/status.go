package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/onward-ml/onward"
)

// Code is the class of an error, which selects the status of the response.
type Code int

// The classes of errors, with their HTTP and gRPC status. The first six are Triton's.
const (
	Internal         Code = iota // 500, INTERNAL
	NotFound                     // 404, NOT_FOUND
	InvalidArgument              // 400, INVALID_ARGUMENT
	Unavailable                  // 503, UNAVAILABLE
	Unsupported                  // 501, UNIMPLEMENTED
	AlreadyExists                // 409, ALREADY_EXISTS
	Cancelled                    // 499, CANCELLED: the client has gone
	DeadlineExceeded             // 504, DEADLINE_EXCEEDED
	Overloaded                   // 503 with Retry-After, RESOURCE_EXHAUSTED
	TooLarge                     // 413, RESOURCE_EXHAUSTED: no retry can succeed
	Unauthenticated              // 401, UNAUTHENTICATED
	UnsupportedMedia             // 415, INVALID_ARGUMENT
	Forbidden                    // 403, PERMISSION_DENIED
	numCodes         = iota
)

var statusOf = [numCodes]struct {
	http int
	grpc codes.Code
}{
	Internal:         {http.StatusInternalServerError, codes.Internal},
	NotFound:         {http.StatusNotFound, codes.NotFound},
	InvalidArgument:  {http.StatusBadRequest, codes.InvalidArgument},
	Unavailable:      {http.StatusServiceUnavailable, codes.Unavailable},
	Unsupported:      {http.StatusNotImplemented, codes.Unimplemented},
	AlreadyExists:    {http.StatusConflict, codes.AlreadyExists},
	Cancelled:        {499, codes.Canceled},
	DeadlineExceeded: {http.StatusGatewayTimeout, codes.DeadlineExceeded},
	Overloaded:       {http.StatusServiceUnavailable, codes.ResourceExhausted},
	TooLarge:         {http.StatusRequestEntityTooLarge, codes.ResourceExhausted},
	Unauthenticated:  {http.StatusUnauthorized, codes.Unauthenticated},
	UnsupportedMedia: {http.StatusUnsupportedMediaType, codes.InvalidArgument},
	Forbidden:        {http.StatusForbidden, codes.PermissionDenied},
}

// Error is an error with the class that selects its status.
type Error struct {
	Code Code
	Err  error
}

// Error returns the text of the cause.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// GRPCStatus returns the gRPC status of the error.
func (e *Error) GRPCStatus() *status.Status { return status.New(statusOf[e.Code].grpc, cut(e.Error())) }

func errorf(code Code, format string, args ...any) error {
	return &Error{Code: code, Err: fmt.Errorf(format, args...)}
}

// invalid returns err as an error of the request, unless it has a class or is that of a context.
func invalid(err error) error {
	if e := new(*Error); err == nil || errors.As(err, e) {
		if err != nil {
			return *e
		}
		return nil
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return classify(err)
	}
	return &Error{InvalidArgument, err}
}

// classify returns err as an *Error. Errors of sessions are classified by their status code.
func classify(err error) *Error {
	var e *Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e):
		return e
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{DeadlineExceeded, err}
	case errors.Is(err, context.Canceled):
		return &Error{Cancelled, err}
	case errors.Is(err, onward.ErrMemoryBudget):
		return &Error{Overloaded, err}
	case errors.Is(err, onward.ErrMemoryLimit):
		return &Error{TooLarge, err}
	case errors.Is(err, onward.ErrInvalidArgument):
		return &Error{InvalidArgument, err}
	case errors.Is(err, onward.ErrNotImplemented):
		return &Error{Unsupported, err}
	}
	return &Error{Internal, err}
}
