//go:build !unix && !windows

package onnx

import (
	"errors"
	"os"
)

const canMap = false // ReadFile reads the file instead

func mapFile(*os.File, int64) ([]byte, func() error, error) {
	return nil, nil, errors.ErrUnsupported
}

func fileSize(*os.File, uintptr) (int64, error) { return 0, errors.ErrUnsupported }

func linkCount(*os.File, os.FileInfo) (uint64, error) { return 1, nil }

// lockFile reports that files cannot be locked, so that abandoned files remain.
func lockFile(*os.File, bool) bool { return false }
