// Package atomicfile writes files so that no reader sees a part of one, and an error or a crash
// leaves the old file.
package atomicfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// Write writes a file under a temporary name in the same folder and renames it to path. perm is its
// mode, less what umask or the mode of a file that exists denies. After an error, path is unchanged
// and the temporary file is removed. The target of a symbolic link is replaced, not the link. A
// device or a pipe such as /dev/stdout is written to.
func Write(path string, perm os.FileMode, write func(io.Writer) error) (err error) {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return errors.Join(write(f), f.Close())
	}
	f, err := createBeside(path, perm)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	if err = write(f); err != nil {
		return err
	}
	if info != nil {
		if err = f.Chmod(info.Mode().Perm() & perm); err != nil {
			return err
		}
	}
	if err = f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// createBeside is [os.CreateTemp] with a mode, to which umask applies.
func createBeside(path string, perm os.FileMode) (f *os.File, err error) {
	for range 100 {
		name := fmt.Sprintf(".%s.%08x", filepath.Base(path), rand.Uint32())
		f, err = os.OpenFile(filepath.Join(filepath.Dir(path), name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
		if !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	return f, err
}

// WriteBytes is [Write] with the contents.
func WriteBytes(path string, perm os.FileMode, data []byte) error {
	return Write(path, perm, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}
