//go:build unix

package atomicfile

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestModes: umask applies to new files, and a file becomes readable or writable for no one else.
func TestModes(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	path := filepath.Join(t.TempDir(), "f")
	for _, c := range []struct{ before, want os.FileMode }{{0, 0o600}, {0o600, 0o600}, {0o640, 0o640}, {0o666, 0o644}} {
		if c.before != 0 {
			if err := os.Chmod(path, c.before); err != nil {
				t.Fatal(err)
			}
		}
		if err := WriteBytes(path, 0o644, nil); err != nil {
			t.Fatal(err)
		}
		if st, err := os.Stat(path); err != nil || st.Mode().Perm() != c.want {
			t.Errorf("after %v the mode is %v, %v, want %v", c.before, st.Mode(), err, c.want)
		}
	}
}
