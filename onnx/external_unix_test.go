//go:build unix

package onnx

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// Opening a FIFO would wait for a writer forever.
func TestExternalDataInAFIFO(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o666); err != nil {
		t.Skipf("no FIFO here: %v", err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		m := externalModel(t, filepath.Join(dir, "m.onnx"), 4, "location", "fifo")
		wantExternalError(t, "FIFO", m, "not a regular file")
		if _, err := ReadFile(filepath.Join(dir, "fifo"), nil); err == nil {
			t.Error("reading a FIFO: no error")
		}
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("opening a FIFO hangs")
	}
}
