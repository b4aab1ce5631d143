//go:build unix

package tables

import (
	"os"
	"path/filepath"
	"testing"
)

// TestModeOfTheResult replaces a file that others may not read.
func TestModeOfTheResult(t *testing.T) {
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in.csv"), filepath.Join(dir, "out.csv")
	writeTable(t, in, numbers(t, 1, 10)...)
	if err := os.WriteFile(out, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	j := Job{Session: sumModel(t, 3), Options: Options{Bind: bindABC()}, In: []string{in}, Out: out}
	j.Progress = func(Progress) {
		if info, err := os.Stat(partialPath(out)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("while it is written: %v, %v", info.Mode(), err)
		}
	}
	runFile(t, j)
	if info, err := os.Stat(out); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the result: %v, %v", info.Mode(), err)
	}
}
