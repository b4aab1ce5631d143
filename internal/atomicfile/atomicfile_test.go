package atomicfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	text := func(s string) func(io.Writer) error {
		return func(w io.Writer) error {
			_, err := io.WriteString(w, s)
			return err
		}
	}
	want := func(content string) {
		t.Helper()
		if got, err := os.ReadFile(path); err != nil || string(got) != content {
			t.Errorf("got %q, %v, want %q", got, err, content)
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
			t.Errorf("the folder has %d files, want 1: %v, %v", len(entries), entries, err)
		}
	}
	for _, s := range []string{"one", "two, longer"} {
		if err := Write(path, 0o600, text(s)); err != nil {
			t.Fatal(err)
		}
		want(s)
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("got mode %v, %v", st.Mode(), err)
	}
	broken := errors.New("broken")
	err := Write(path, 0o600, func(w io.Writer) error {
		io.WriteString(w, "half")
		return broken
	})
	if !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	want("two, longer")
	if err := Write(filepath.Join(dir, "no", "f"), 0o600, text("")); err == nil {
		t.Error("writing to a folder that does not exist gave no error")
	}
}
