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

// TestWriteKeepsDevices writes to a device, which must not become a file, and
// through a symbolic link.
func TestWriteKeepsDevices(t *testing.T) {
	info, err := os.Stat(os.DevNull)
	if err != nil || info.Mode().IsRegular() {
		t.Skipf("%s is not a device: %v", os.DevNull, err)
	}
	dir := t.TempDir()
	link, target := filepath.Join(dir, "link"), filepath.Join(dir, "target")
	if err := os.Symlink(os.DevNull, link); err != nil {
		t.Skip(err)
	}
	for _, path := range []string{link, os.DevNull} {
		if err := WriteBytes(path, 0o600, []byte("x")); err != nil {
			t.Error(err)
		}
	}
	if after, err := os.Stat(os.DevNull); err != nil || after.Mode() != info.Mode() {
		t.Errorf("%s is %v now, %v", os.DevNull, after.Mode(), err)
	}
	if err := errors.Join(os.Remove(link), os.WriteFile(target, nil, 0o600), os.Symlink(target, link),
		WriteBytes(link, 0o600, []byte("x"))); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(target)
	if info, e := os.Lstat(link); e != nil || err != nil || info.Mode().IsRegular() || string(got) != "x" {
		t.Errorf("the link is %v, its target has %q, %v %v", info.Mode(), got, e, err)
	}
	if err := WriteBytes(dir, 0o600, nil); err == nil {
		t.Error("writing to a folder gave no error")
	}
}
