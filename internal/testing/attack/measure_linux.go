package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// threadTime returns the CPU time of the calling thread.
func threadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(err)
	}
	return time.Duration(t.Nano())
}

// processTime returns the processor time of a process.
func processTime(pid int) time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(int32(^pid<<3|2), &t) != nil { // clock_getcpuclockid(3)
		return 0
	}
	return time.Duration(t.Nano())
}

func init() {
	externalFiles["fifo"] = externalFile{make: func(p string) error { return unix.Mkfifo(p, 0o666) }}
}

// resetPeak starts a new measurement of the peak of a process's resident memory.
func resetPeak(pid int) { _ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0) }

// peak returns the largest resident memory of a process since resetPeak, in bytes.
func peak(pid int) int64 { return status(pid, "VmHWM:") }

// resident returns the resident memory of a process in bytes.
func resident(pid int) int64 { return status(pid, "VmRSS:") }

// status returns a size of /proc/PID/status, 0 if there is none.
func status(pid int, key string) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, key); ok {
			n, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(v), " kB"), 10, 64)
			return n << 10
		}
	}
	return 0
}
