//go:build !linux

package goengine

func physicalMemory() int64 { return 0 }
