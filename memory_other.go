//go:build !linux

package onward

func physicalMemory() int64 { return 0 }
