// Package cli holds the errors that decide the command's exit code.
package cli

import (
	"fmt"
	"syscall"
)

// A UsageError is a mistake in the command line: exit code 2.
type UsageError struct{ Err error }

// Error implements error.
func (e UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e UsageError) Unwrap() error { return e.Err }

// Usagef formats a UsageError.
func Usagef(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

// Printed wraps an error that has been printed already: exit code 1, and no message.
type Printed struct {
	Err error
	// Complete says that the verb has ended and Err is its result, not the effect of a signal. A
	// signal that comes later does not change the exit code.
	Complete bool
}

// Error implements error.
func (e Printed) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e Printed) Unwrap() error { return e.Err }

// NotLinked is the error for a verb, flag or provider that the build tags of
// this program leave out.
type NotLinked struct{ What string }

// Error implements error.
func (e NotLinked) Error() string {
	return e.What + " is not part of this build: the tag core or server leaves it out"
}

// Interrupted is the cause of the end of a context that a signal has canceled.
type Interrupted struct{ Signal syscall.Signal }

// Error implements error.
func (e Interrupted) Error() string { return "interrupted" }

// ExitCode returns 128 plus the number of the signal, as shells do: 130 for SIGINT.
func (e Interrupted) ExitCode() int { return 128 + int(e.Signal) }
