package onnx

import (
	"bytes"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onward-ml/onward/internal/testing/suite"
)

// suiteFiles lists the files of the suite with one of the suffixes.
func suiteFiles(t testing.TB, suffix string) []string {
	var files []string
	err := filepath.WalkDir(suite.Dir(t), func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && strings.HasSuffix(path, suffix) {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatalf("no *%s under %s", suffix, suite.Dir(t))
	}
	return files
}

func TestSuiteModelsRead(t *testing.T) {
	files := suiteFiles(t, ".onnx")
	for _, path := range files {
		m, err := ReadFile(path, nil)
		if err != nil {
			t.Error(err)
			continue
		}
		if m.Graph == nil || len(m.Graph.Nodes) == 0 || len(m.Graph.Outputs) == 0 {
			t.Errorf("%s: graph is empty", path)
		}
	}
	t.Logf("%d models", len(files))
}

// What Marshal writes reads back as the same model, and writes as the same bytes again.
func TestSuiteModelsRewrite(t *testing.T) {
	for _, path := range suiteFiles(t, ".onnx") {
		m, err := ReadFile(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		first, err := m.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		again, err := Unmarshal(first, nil)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		second, err := again.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(first, second) {
			t.Errorf("%s: rewritten bytes differ", path)
		}
	}
}
