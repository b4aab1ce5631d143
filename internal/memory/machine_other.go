//go:build !linux

package memory

func machine() int64 { return 0 }
