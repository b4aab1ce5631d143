package onnx

import (
	"runtime/debug"

	"github.com/onward-ml/onward/internal/fail"
)

// guardMapped runs fn in this goroutine and returns [ErrMappedFile] if fn faults while it reads
// mapped memory. It does not guard goroutines that fn starts. Other panics pass through.
func guardMapped(fn func() error) error {
	return guard(fn, func(r any) error {
		if addr, ok := faultAddress(r); ok {
			return fail.Errorf("%w (fault at %#x)", ErrMappedFile, addr)
		}
		return nil
	})
}

// guard runs fn. It passes the value of a panic to fault and returns the error; if that is nil, it
// panics again.
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

// faultAddress returns the memory address of a recovered fault.
func faultAddress(recovered any) (addr uintptr, ok bool) {
	// Only faults outside of the nil page have an address.
	if f, ok := recovered.(interface {
		error
		Addr() uintptr
	}); ok {
		return f.Addr(), true
	}
	return 0, false
}
