//go:build !linux

package memory

// DropCode does nothing.
func DropCode() {}
