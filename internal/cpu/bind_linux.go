package cpu

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// Bind makes the calling goroutine run on the given processors only, which are numbered from 0 as
// Linux numbers them, until it calls restore.
func Bind(processors []int) (restore func(), err error) {
	var was, set unix.CPUSet
	for _, p := range processors {
		set.Set(p)
	}
	runtime.LockOSThread()
	if err = unix.SchedGetaffinity(0, &was); err == nil {
		err = unix.SchedSetaffinity(0, &set)
	}
	if err != nil {
		runtime.UnlockOSThread()
		return nil, fmt.Errorf("binding a thread to processors %v, counted from 0: %w", processors, err)
	}
	return func() {
		if unix.SchedSetaffinity(0, &was) == nil { // else the thread ends with the goroutine
			runtime.UnlockOSThread()
		}
	}, nil
}
