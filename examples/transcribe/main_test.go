package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onward-ml/onward/internal/testing/modelfolder"
)

func TestTranscribe(t *testing.T) {
	dir := t.TempDir()
	if err := modelfolder.Write(dir, "speech"); err != nil {
		t.Fatal(err)
	}
	var files []string
	for name, text := range map[string]string{"one.wav": "aa_a b", "two.wav": "_bb_b_"} {
		files = append(files, filepath.Join(dir, name))
		if err := os.WriteFile(filepath.Join(dir, name), modelfolder.Speech(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var b strings.Builder
	if err := transcribe(t.Context(), &b, "", dir, files); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"one.wav 0s  aa b\n", "two.wav 0s  bb\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("got\n%swant %q in it", b.String(), want)
		}
	}
	if err := transcribe(t.Context(), &b, "missing.onnx", dir, files); err == nil {
		t.Error("want an error for a missing voice detector")
	}
}
