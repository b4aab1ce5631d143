package kit

import "fmt"

// Errorf is [fmt.Errorf] as a plain call, for the operators: since Go 1.26 the compiler inlines fmt.Errorf, which
// takes some 70 bytes for each of their thousand errors.
//
//go:noinline
func Errorf(format string, args ...any) error { return fmt.Errorf(format, args...) }
