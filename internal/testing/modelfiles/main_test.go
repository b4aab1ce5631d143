package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestClassify plays engines that agree, differ, refuse and take too long.
func TestClassify(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{agree, differ, refused, oneOnly, late, "data/" + agree} {
		file := filepath.Join(dir, name+".onnx")
		if err := errors.Join(os.MkdirAll(filepath.Join(filepath.Dir(file), "test_data_set_0"), 0o777),
			os.WriteFile(file, nil, 0o666), os.WriteFile(file+".txt", nil, 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	failure := errors.New("exit status 1")
	counts, err := all([]string{dir}, func(args ...string) (string, string, error) {
		if !slices.Contains(args, "--inputs") {
			t.Errorf("onward %v has no inputs, and the folder has", args)
		}
		compares := args[0] == "compare"
		switch name := filepath.Base(args[1]); {
		case name == late+".onnx":
			return "", "", context.DeadlineExceeded
		case name == differ+".onnx" && compares:
			return "{}", "", failure
		case name == refused+".onnx", name == oneOnly+".onnx" && (compares || args[3] == "reference"):
			return "", "refused", failure
		}
		return "{}", "", nil
	})
	if err != nil || counts[agree] != 2 || len(counts) != 5 || counts[differ]+counts[refused]+counts[oneOnly]+
		counts[late] != 4 {
		t.Errorf("%v, %v", counts, err)
	}
}
