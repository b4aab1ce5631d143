//go:build unix

package onnx

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// TestAbandonedFiles: writing removes the temporary files that killed processes have left, and
// neither those of other writers nor other files.
func TestAbandonedFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.onnx")
	other, err := createBeside(path)
	if err != nil {
		t.Fatal(err)
	}
	defer other.discard()
	beside := func(name string) string { return filepath.Join(filepath.Dir(path), name) }
	keep := []string{other.f.Name(), beside(".m.onnx.0123.tmp"), beside(".m.onnx.0123456g.tmp"),
		beside("m.onnx.01234567.tmp")}
	for _, name := range append(keep[1:], beside(".m.onnx.01234567.tmp")) {
		if err := os.WriteFile(name, []byte("part"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	b := NewModel("m").Opset("", 21)
	b.Input("x", Float, 1).Output("y", Float, 1).Node("Neg", []string{"x"}, []string{"y"})
	if err := WriteFile(path, b.Must(), nil); err != nil {
		t.Fatal(err)
	}
	for _, name := range append(keep, path) {
		if _, err := os.Stat(name); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(beside(".m.onnx.01234567.tmp")); !os.IsNotExist(err) {
		t.Errorf("an abandoned file remains: %v", err)
	}
}

// TestConcurrentWriters: writers of a file remove no temporary file that another one has finished.
func TestConcurrentWriters(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.onnx")
	b := NewModel("m").Opset("", 21)
	b.Input("x", Float, 1).Output("y", Float, 1).Node("Neg", []string{"x"}, []string{"y"})
	m := b.Must()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				if err := WriteFile(path, m, nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}
