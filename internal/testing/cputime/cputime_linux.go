package cputime

import (
	"time"

	"golang.org/x/sys/unix"
)

// Processor returns the processor time of this process in nanoseconds. Getrusage rounds it to
// microseconds, which is longer than many kernels run.
func Processor() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t); err != nil {
		panic(err) // the arguments are valid
	}
	return time.Duration(t.Nano())
}
