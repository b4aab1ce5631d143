//go:build !unix

package cputime

import "time"

var began = time.Now()

// Processor returns the wall time: the processor time is not known.
func Processor() time.Duration { return time.Since(began) }
