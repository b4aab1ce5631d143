//go:build !linux

package main

import "time"

var began = time.Now()

// threadTime returns the elapsed time, since the CPU time of a thread is not available.
func threadTime() time.Duration { return time.Since(began) }

// The peak of the resident memory is measured on Linux only.
func resetPeak() {}

func peak() int64 { return 0 }
