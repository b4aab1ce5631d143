//go:build !linux || !amd64 || purego

package cpu

func hasAMX() bool { return false }

func hasAMXBF16() bool { return false }
