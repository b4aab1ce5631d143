//go:build !unix

package cputime

import "time"

var began = time.Now()

// processor returns the wall time: the processor time is not known.
func processor() time.Duration { return time.Since(began) }
