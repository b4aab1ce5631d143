package kernels_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// TestGeneratedFilesAreCurrent runs the generator and compares its files with those that are
// checked in.
func TestGeneratedFilesAreCurrent(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles and runs the generator")
	}
	for _, pkg := range []string{"vec", "gemm", "conv", "quant", "tree"} {
		dir := t.TempDir()
		cmd := exec.Command("go", "run", ".", pkg, dir)
		cmd.Dir = "_asm"
		cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("generating %s: %v\n%s", pkg, err, out)
		}
		want := names(t, dir, "*")
		if len(want) == 0 {
			t.Fatalf("%s: no generated files", pkg)
		}
		for _, name := range names(t, pkg, "z_*") {
			if !slices.Contains(want, name) {
				t.Errorf("%s/%s is not written by the generator: delete it", pkg, name)
			}
		}
		for _, name := range want {
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(filepath.Join(pkg, name)); err != nil || !bytes.Equal(got, text) {
				t.Errorf("%s/%s is not what the generator writes (%v): run go generate ./internal/kernels/...",
					pkg, name, err)
			}
		}
	}
}

// names returns the names of the files of a folder that match a pattern.
func names(t *testing.T, dir, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range files {
		files[i] = filepath.Base(f)
	}
	return files
}
