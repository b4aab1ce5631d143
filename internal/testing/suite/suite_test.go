package suite

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestFindByVariable(t *testing.T) {
	for _, below := range []string{".", filepath.FromSlash(inWheel)} {
		dir := t.TempDir()
		if err := os.MkdirAll(filepath.Join(dir, below, "node"), 0o755); err != nil {
			t.Fatal(err)
		}
		t.Setenv(Env, dir)
		s, err := Find()
		if want := filepath.Join(dir, below); err != nil || s.Dir != want {
			t.Errorf("Find = %q, %v, want %q", s.Dir, err, want)
		}
	}
}

func TestFindRefusesAFolderWithoutASuite(t *testing.T) {
	t.Setenv(Env, t.TempDir())
	if s, err := Find(); err == nil || errors.Is(err, ErrAbsent) {
		t.Errorf("Find = %+v, %v, want an error that names the folder", s, err)
	}
}

func TestFindAbsent(t *testing.T) {
	t.Setenv(Env, "")
	empty := t.TempDir()
	for _, v := range []string{"XDG_CACHE_HOME", "HOME", "LocalAppData"} { // what os.UserCacheDir reads
		t.Setenv(v, empty)
	}
	if s, err := Find(); !errors.Is(err, ErrAbsent) {
		t.Errorf("Find = %+v, %v, want ErrAbsent", s, err)
	}
}
