//go:build map || (!core && !server)

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMapKeepsTheModel: no output replaces a file of the model.
func TestMapKeepsTheModel(t *testing.T) {
	dir := t.TempDir()
	in, model, data := filepath.Join(dir, "in.csv"), filepath.Join(dir, "m.csv.partial"), filepath.Join(dir, "w.csv")
	if err := os.WriteFile(in, []byte("image\n1\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	command(t, exitOK, "edit", "convert", "digits.onnx", "-o", model, "--external-data", "w.csv")
	for _, out := range []string{filepath.Join(dir, "m.csv"), data} {
		before, err := os.ReadFile(model)
		if err != nil {
			t.Fatal(err)
		}
		_, errs := command(t, exitFailed, "map", model, in, "-o", out)
		if !strings.Contains(errs, "is a file of the model") {
			t.Errorf("-o %s: %s", out, errs)
		}
		if after, err := os.ReadFile(model); err != nil || string(after) != string(before) {
			t.Errorf("-o %s: the model has %d bytes, %v", out, len(after), err)
		}
	}
}

// TestMapModels: a job is resumed only with the same external data and files behind links.
func TestMapModels(t *testing.T) {
	dir := t.TempDir()
	model, data := filepath.Join(dir, "m.onnx"), filepath.Join(dir, "w.bin")
	command(t, exitOK, "edit", "convert", "digits.onnx", "-o", model, "--external-data", "w.bin")
	folder, blobs, link := filepath.Join(dir, "folder"), filepath.Join(dir, "blobs"), filepath.Join(dir, "link")
	blob := filepath.Join(blobs, "1")
	if err := errors.Join(os.MkdirAll(folder, 0o777), os.MkdirAll(blobs, 0o777),
		os.WriteFile(blob, nil, 0o666)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Symlink(blob, filepath.Join(folder, "model.onnx")), os.Symlink(folder, link)); err != nil {
		t.Skip(err)
	}
	for i := range 20 { // 20^8 paths of 8 levels
		if err := os.Symlink(folder, filepath.Join(folder, fmt.Sprint("up", i))); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		path, changed string
		digest        func(string) (string, error)
	}{{model, data, modelDigest}, {folder, blob, folderDigest}, {link, blob, folderDigest}} {
		before, err := c.digest(c.path)
		if err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(c.changed, os.O_APPEND|os.O_WRONLY, 0)
		if err == nil {
			_, err = f.WriteString("x")
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		if after, err := c.digest(c.path); err != nil || after == before {
			t.Errorf("%s: %s has changed, and the digest stays: %v", c.path, c.changed, err)
		}
	}
}
