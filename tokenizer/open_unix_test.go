//go:build unix

package tokenizer_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/onward-ml/onward/tokenizer"
)

// TestOpenRefusesPipesAndDevices opens folders whose files are a named pipe without a writer, and
// a device.
func TestOpenRefusesPipesAndDevices(t *testing.T) {
	for _, name := range []string{"tokenizer.json", "vocab.txt", "tokenizer_config.json"} {
		dir := t.TempDir()
		if name == "tokenizer_config.json" {
			if err := os.WriteFile(filepath.Join(dir, "vocab.txt"), []byte("a\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		path := filepath.Join(dir, name)
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Skipf("no named pipes here: %v", err)
		}
		wantNotRegular(t, dir)
		if name != "tokenizer_config.json" {
			wantNotRegular(t, path)
		}
	}
	if _, err := os.Stat("/dev/null"); err == nil {
		wantNotRegular(t, "/dev/null")
	}
}

func wantNotRegular(t *testing.T, path string) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		_, err := tokenizer.Open(path, nil)
		done <- err
	}()
	select {
	case err := <-done:
		if err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("%s: got error %v, want that it is not a regular file", path, err)
		}
	case <-time.After(10 * time.Second):
		t.Fatalf("%s: Open waits for a writer", path)
	}
}

// TestOpenOfAFileThatBecomesAPipe replaces a file by a named pipe, and back, while it is opened.
func TestOpenOfAFileThatBecomesAPipe(t *testing.T) {
	dir := t.TempDir()
	path, pipe, file := filepath.Join(dir, "vocab.txt"), filepath.Join(dir, "pipe"), filepath.Join(dir, "file")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skipf("no named pipes here: %v", err)
	}
	if err := os.WriteFile(file, []byte("a\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(file, path); err != nil {
		t.Skipf("no links here: %v", err)
	}
	opened, stop, stopped := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		next := filepath.Join(dir, "next")
		for from, other := pipe, file; ; from, other = other, from {
			select {
			case <-stop:
				return
			default:
			}
			if err := errors.Join(os.Link(from, next), os.Rename(next, path)); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	defer func() { close(stop); <-stopped }()
	go func() {
		defer close(opened)
		for range 5000 {
			_, _ = tokenizer.Open(path, nil) // fails if it is the pipe
		}
	}()
	select {
	case <-opened:
	case <-time.After(time.Minute):
		t.Fatal("Open waits for a writer")
	}
}
