package pipeline

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// parallel calls f for 0 to n-1 on all cores.
func parallel(n int, f func(i int) error) error {
	var next atomic.Int64
	errs := make([]error, min(n, runtime.GOMAXPROCS(0)))
	var wg sync.WaitGroup
	for w := range errs {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && errs[w] == nil; i = int(next.Add(1)) - 1 {
				errs[w] = contained(func() error { return f(i) })
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// contained calls f and makes a panic its error, which would end the program in a goroutine.
func contained(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("internal error: %v\n%s", p, debug.Stack())
		}
	}()
	return f()
}
