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
func GuardMapped(fn func() error) error {
	return guard(fn, func(r any) error {
		if addr, ok := faultAddress(r); ok {
			return fmt.Errorf("%w (fault at %#x)", ErrMappedFile, addr)
		}
		return nil
	})
}

// guard runs fn and returns what fault makes of a panic; it panics again where that is nil.
func guard(fn func() error, fault func(recovered any) error) (err error) {
	old := debug.SetPanicOnFault(true)
	defer debug.SetPanicOnFault(old)
	defer func() {
		if r := recover(); r != nil {
			if err = fault(r); err == nil {
				panic(r)
			}
		}
	}()
	return fn()
}

// faultAddress returns the address of the fault that a panic was.
func faultAddress(recovered any) (addr uintptr, ok bool) {
	// Only faults at addresses outside the nil page carry one.
	if f, ok := recovered.(interface {
		error
		Addr() uintptr
	}); ok {
		return f.Addr(), true
	}
	return 0, false
}
