package onnx

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// ErrMappedFile says that a mapped file could not be read any more: it was truncated while in use, or
// its disk failed.
var ErrMappedFile = errors.New("mapped file is no longer readable")

// GuardMapped runs fn, in this goroutine, and returns [ErrMappedFile] where reading mapped memory
// faults in it. Goroutines that fn starts are not guarded. Panics of other kinds pass through.
func GuardMapped(fn func() error) (err error) {
	old := debug.SetPanicOnFault(true)
	defer debug.SetPanicOnFault(old)
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		// Only faults at addresses outside the nil page carry one.
		if f, ok := r.(interface {
			error
			Addr() uintptr
		}); ok {
			err = fmt.Errorf("%w (fault at %#x)", ErrMappedFile, f.Addr())
			return
		}
		panic(r)
	}()
	return fn()
}
