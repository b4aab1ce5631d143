// Package regular opens regular files only. Opening a named pipe would wait for its other end, and
// opening a device may act on it.
package regular

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Err is wrapped by the errors for files that are not regular.
var Err = errors.New("not a regular file")

// Open opens a regular file for reading. It does not wait if another process replaces the file by a
// pipe meanwhile.
func Open(path string) (*os.File, fs.FileInfo, error) {
	return open(path, func() (fs.FileInfo, error) { return os.Stat(path) },
		func() (*os.File, error) { return os.OpenFile(path, os.O_RDONLY|nonblock, 0) })
}

// OpenIn is [Open] for a file of a folder, with the flags of [os.OpenFile].
func OpenIn(root *os.Root, name string, flags int) (*os.File, fs.FileInfo, error) {
	return open(name, func() (fs.FileInfo, error) { return root.Stat(name) },
		func() (*os.File, error) { return root.OpenFile(name, flags|nonblock, 0) })
}

func open(name string, stat func() (fs.FileInfo, error), open func() (*os.File, error)) (*os.File, fs.FileInfo, error) {
	info, err := stat()
	if e := (*fs.PathError)(nil); errors.As(err, &e) {
		e.Op = "open"
	}
	if err == nil {
		err = check(name, info.Mode())
	}
	if err != nil {
		return nil, nil, err
	}
	f, err := open()
	if err != nil {
		return nil, nil, err
	}
	if info, err = f.Stat(); err == nil {
		err = check(name, info.Mode())
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

func check(name string, m fs.FileMode) error {
	if !m.IsRegular() {
		return fmt.Errorf("%s is %w (%s)", name, Err, m.Type())
	}
	return nil
}

// FS returns the regular files and folders of a folder, as [os.Root.FS] does.
func FS(root *os.Root) fs.FS { return folder{root.FS().(fs.StatFS), root} }

type folder struct {
	fs.StatFS
	root *os.Root
}

// Open implements fs.FS.
func (f folder) Open(name string) (fs.File, error) {
	info, err := f.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		// A pipe in its place is opened without waiting, and is no folder.
		return f.root.OpenFile(name, os.O_RDONLY|nonblock, 0)
	}
	file, _, err := OpenIn(f.root, name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	return file, nil
}
