package exec

import (
	"fmt"
	"runtime/debug"
)

// Mapped is memory of files that a plan reads its constants from. Reading it faults when another process has
// truncated a file, and Go makes a panic of that in goroutines that ask for it: runs of such plans
// do, in the caller's goroutine and in the pool's workers.
type Mapped interface {
	// Fault returns the error that a recovered panic stands for, nil where it is none of this memory.
	Fault(recovered any) error
	// Check returns what has become of a run that ended with err: err, or that a file is not whole any more.
	Check(err error) error
}

// guarded is fn for a plan that reads mapped memory.
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

// panicked returns the error that a panic of an operator is. With crashOnPanic only faults of mapped memory are.
func (p *Plan) panicked(recovered any) error {
	if p.opts.Mapped != nil {
		if err := p.opts.Mapped.Fault(recovered); err != nil {
			return err
		}
	}
	if crashOnPanic {
		panic(recovered)
	}
	return fmt.Errorf("internal error: %v", recovered)
}
