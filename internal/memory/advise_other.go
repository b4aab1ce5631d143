//go:build !linux

package memory

func advise([]byte) {}
