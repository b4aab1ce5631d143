//go:build unix

package tables

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// TestModeOfTheResult replaces a file that others may not read, and one that is read-only. The
// owner can resume the file beside the result.
func TestModeOfTheResult(t *testing.T) {
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in.csv"), filepath.Join(dir, "out.csv")
	writeTable(t, in, numbers(t, 1, 10)...)
	for _, c := range []struct{ mode, while fs.FileMode }{{0o600, 0o600}, {0o440, 0o640}} {
		os.Remove(out)
		if err := os.WriteFile(out, nil, c.mode); err != nil {
			t.Fatal(err)
		}
		j := Job{Session: sumModel(t, 3), Options: Options{Bind: bindABC()}, In: []string{in}, Out: out}
		j.Progress = func(Progress) {
			if info, err := os.Stat(partialPath(out)); err != nil || info.Mode().Perm() != c.while {
				t.Errorf("mode %v: while it is written %v, %v, want %v", c.mode, info.Mode(), err, c.while)
			}
		}
		runFile(t, j)
		if info, err := os.Stat(out); err != nil || info.Mode().Perm() != c.mode {
			t.Errorf("mode %v: the result has %v, %v", c.mode, info.Mode(), err)
		}
	}
}
