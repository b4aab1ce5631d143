package exec

import (
	"runtime/debug"

	"github.com/onward-ml/onward/internal/fail"
)

// Mapped is the memory of mapped files from which a plan reads constants. Reading it faults if
// another process has truncated a file. Go converts the fault to a panic in goroutines that request
// it, as the caller's goroutine and the workers do in runs of such plans.
type Mapped interface {
	// Fault converts a recovered panic to an error, or to nil if it is not a fault of this memory.
	Fault(recovered any) error
	// Check returns err, the result of a run, or an error if a file has been truncated.
	Check(err error) error
}

// guarded wraps fn for a plan that reads mapped memory.
func (p *Plan) guarded(fn func() error) (err error) {
	old := debug.SetPanicOnFault(true)
	defer debug.SetPanicOnFault(old)
	defer func() {
		if r := recover(); r != nil {
			if err = p.opts.Mapped.Fault(r); err == nil {
				panic(r)
			}
		}
	}()
	return p.opts.Mapped.Check(fn())
}

// panicked converts a recovered panic to an error. With crashOnPanic it converts only faults of
// mapped memory and panics again otherwise.
func (p *Plan) panicked(recovered any) error {
	if p.opts.Mapped != nil {
		if err := p.opts.Mapped.Fault(recovered); err != nil {
			return err
		}
	}
	if crashOnPanic {
		panic(recovered)
	}
	return fail.Errorf("internal error: %v", recovered)
}
