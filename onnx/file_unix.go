//go:build unix

package onnx

import (
	"os"
	"syscall"
)

const canMap = true

func mapFile(f *os.File, size int64) ([]byte, func() error, error) {
	if int64(int(size)) != size {
		return nil, nil, syscall.EFBIG
	}
	data, err := syscall.Mmap(int(f.Fd()), 0, int(size), syscall.PROT_READ, syscall.MAP_PRIVATE)
	if err != nil {
		return nil, nil, err
	}
	return data, func() error { return syscall.Munmap(data) }, nil
}

// fileSize returns the size of a file without allocating.
func fileSize(_ *os.File, fd uintptr) (int64, error) {
	var st syscall.Stat_t
	if err := syscall.Fstat(int(fd), &st); err != nil {
		return 0, err
	}
	return st.Size, nil
}

func linkCount(_ *os.File, st os.FileInfo) (uint64, error) {
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		return uint64(sys.Nlink), nil
	}
	return 1, nil
}

// lockFile locks a file until it is closed or the process ends, and reports whether it has done so.
func lockFile(f *os.File, wait bool) bool {
	how := syscall.LOCK_EX
	if !wait {
		how |= syscall.LOCK_NB
	}
	return syscall.Flock(int(f.Fd()), how) == nil
}
