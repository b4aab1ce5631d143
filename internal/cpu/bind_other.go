//go:build !linux

package cpu

import (
	"errors"
	"fmt"
	"runtime"
)

// Bind returns an error: threads are bound to processors on Linux only.
func Bind([]int) (restore func(), err error) {
	return nil, fmt.Errorf("binding threads to processors on %s: %w", runtime.GOOS, errors.ErrUnsupported)
}
