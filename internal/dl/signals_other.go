//go:build !linux

package dl

// KeepSignalStack calls f. On Linux it also keeps the thread's signal stack.
func KeepSignalStack(f func()) { f() }
