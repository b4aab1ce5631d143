package onnx

import (
	"errors"
	"os"
	"syscall"
)

const canMap = false // ReadFile reads the file instead, since a mapping would prevent replacing it

func mapFile(*os.File, int64) ([]byte, func() error, error) {
	return nil, nil, errors.ErrUnsupported
}

func fileSize(*os.File, uintptr) (int64, error) { return 0, errors.ErrUnsupported }

func linkCount(f *os.File, _ os.FileInfo) (uint64, error) {
	var info syscall.ByHandleFileInformation
	if err := syscall.GetFileInformationByHandle(syscall.Handle(f.Fd()), &info); err != nil {
		return 0, err
	}
	return uint64(info.NumberOfLinks), nil
}

// lockFile reports that files cannot be locked, so that abandoned files remain.
func lockFile(*os.File, bool) bool { return false }
