// Package atomicfile writes files so that no reader sees a part of one, and an error or a crash
// leaves the old file.
package atomicfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
)

// Write writes a file under a temporary name in the same folder and renames it to path. perm is its
// mode. After an error, path is unchanged and the temporary file is removed. The target of a
// symbolic link is replaced, not the link. A device or a pipe such as /dev/stdout is written to.
func Write(path string, perm os.FileMode, write func(io.Writer) error) (err error) {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return errors.Join(write(f), f.Close())
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
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
	if err = f.Chmod(perm); err != nil {
		return err
	}
	if err = f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// WriteBytes is [Write] with the contents.
func WriteBytes(path string, perm os.FileMode, data []byte) error {
	return Write(path, perm, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}
