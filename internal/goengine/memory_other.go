//go:build !linux

package goengine

// physicalMemory returns 0: the size of the memory is unknown.
func physicalMemory() int64 { return 0 }
