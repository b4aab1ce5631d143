package onnx

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestCommitBoth: if the model cannot get its name, its old data come back.
func TestCommitBoth(t *testing.T) {
	dir := t.TempDir()
	data, path := filepath.Join(dir, "a.bin"), filepath.Join(dir, "a.onnx")
	if err := os.WriteFile(data, []byte("old"), 0o666); err != nil {
		t.Fatal(err)
	}
	external, err := createBeside(data)
	if err != nil {
		t.Fatal(err)
	}
	defer external.discard()
	file, err := createBeside(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.discard()
	if _, err := external.f.WriteString("new"); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(path, "x"), 0o777); err != nil { // no file gets this name
		t.Fatal(err)
	}
	if err := commitBoth(external, file); err == nil {
		t.Error("a file replaces a folder")
	}
	if got, err := os.ReadFile(data); err != nil || string(got) != "old" {
		t.Errorf("the data are %q, %v", got, err)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 2 {
		t.Errorf("%d files are left, want 2: %v", len(list), err)
	}
}

// TestWriteFileKeepsItsData: a model is not written over its own external data.
func TestWriteFileKeepsItsData(t *testing.T) {
	dir := t.TempDir()
	path, data := filepath.Join(dir, "a.onnx"), filepath.Join(dir, "a.bin")
	b := NewModel("m").Opset("", 21)
	b.Input("x", Float, 512).Initializer("w", make([]float32, 512), 512).Output("y", Float, 512)
	b.Node("Add", []string{"x", "w"}, []string{"y"})
	if err := WriteFile(path, b.Must(), &WriteOptions{ExternalData: "a.bin"}); err != nil {
		t.Fatal(err)
	}
	m, err := ReadFile(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if got := m.DataFile(data); got == "" || m.DataFile(path) != "" {
		t.Errorf("the data of the model are in %q", got)
	}
	for _, o := range []*WriteOptions{nil, {ExternalData: "b.bin"}} {
		if err := WriteFile(data, m, o); !errors.Is(err, ErrExternalData) {
			t.Errorf("options %+v: %v, want ErrExternalData", o, err)
		}
	}
}
