//go:build unix

package regular

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestOpen opens a file, a folder and a named pipe in each way. It must not wait.
func TestOpen(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("x"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o666); err != nil {
		t.Skip(err)
	}
	for name, open := range map[string]func(name string) error{
		"Open": func(name string) error {
			f, info, err := Open(filepath.Join(dir, name))
			return closed(f, info, err)
		},
		"OpenIn": func(name string) error {
			f, info, err := OpenIn(root, name, os.O_RDWR)
			return closed(f, info, err)
		},
		"FS": func(name string) error {
			_, err := fs.ReadFile(FS(root), name)
			return err
		},
		// As if the file had been replaced after the first check.
		"open": func(name string) error {
			f, info, err := open(name, func() (fs.FileInfo, error) { return root.Stat("file") },
				func() (*os.File, error) { return root.OpenFile(name, os.O_RDONLY|nonblock, 0) })
			return closed(f, info, err)
		},
	} {
		for _, file := range []string{"file", "folder", "pipe"} {
			err := open(file)
			if (err == nil) != (file == "file") ||
				file == "pipe" && !strings.Contains(err.Error(), "not a regular file") {
				t.Errorf("%s of a %s: %v", name, file, err)
			}
		}
	}
	if list, err := fs.ReadDir(FS(root), "."); err != nil || len(list) != 3 {
		t.Errorf("the folder has %v, %v", list, err)
	}
}

func closed(f *os.File, info fs.FileInfo, err error) error {
	if err != nil {
		return err
	}
	defer f.Close()
	if info.Size() != 1 {
		return os.ErrInvalid
	}
	return nil
}
