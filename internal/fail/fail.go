// Package fail makes errors in less code than [fmt.Errorf] does.
package fail

import "fmt"

// Errorf is [fmt.Errorf] as a plain call: since Go 1.26 the compiler inlines fmt.Errorf, which
// takes some 70 bytes for each of a thousand errors.
//
//go:noinline
func Errorf(format string, args ...any) error { return fmt.Errorf(format, args...) }
