package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"
)

// Wheel names one file of a Python package, so that every host gets the same bytes
// whatever its own platform and Python are.
type Wheel struct {
	Requirement string // "onnx==1.22.0"
	Platform    string // platform tag for pip: "manylinux_2_28_x86_64"
	File        string
	Sum         string // SHA-256 in hex
}

// Download fetches the wheel for CPython 3.11 with the first pip that works, checks its
// hash and returns its contents.
func (w *Wheel) Download(ctx context.Context) ([]byte, error) {
	tmp, err := os.MkdirTemp("", "onward-wheel-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	args := []string{"download", "--quiet", "--disable-pip-version-check", "--no-deps", "--dest", tmp,
		"--only-binary=:all:", "--platform", w.Platform, "--python-version", "3.11", "--implementation",
		"cp", w.Requirement}
	var why []error
	for _, pip := range [][]string{{"python3", "-m", "pip"}, {"python", "-m", "pip"}, {"pip3"}, {"pip"}} {
		if _, err := Run(ctx, "", append(pip, args...)...); err != nil {
			why = append(why, err)
			continue
		}
		return CheckFile(filepath.Join(tmp, w.File), w.Sum)
	}
	return nil, errors.Join(why...)
}
