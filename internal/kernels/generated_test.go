package kernels_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestGeneratedFilesAreCurrent runs the generator and compares its files with those that are checked in.
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
		files, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: no generated files (%v)", pkg, err)
		}
		for _, f := range files {
			want, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			name := filepath.Join(pkg, filepath.Base(f))
			if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s is not what the generator writes (%v): run go generate ./internal/kernels/...", name, err)
			}
		}
	}
}
