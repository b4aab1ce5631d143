//go:build !purego && !linux && !darwin && !windows

package cpu

func systemInt8Matrix() bool { return false }

func systemBF16() bool { return false }
