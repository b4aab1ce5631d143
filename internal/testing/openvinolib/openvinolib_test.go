package openvinolib

import (
	"debug/elf"
	"errors"
	"path/filepath"
	"runtime"
	"testing"
)

func TestFindRefusesAMissingFile(t *testing.T) {
	t.Setenv(Env, filepath.Join(t.TempDir(), "absent.so"))
	if lib, err := Find(); err == nil || errors.Is(err, ErrAbsent) {
		t.Errorf("Find = %q, %v, want an error that names the file", lib, err)
	}
}

func TestLibraryIsForThisMachine(t *testing.T) {
	lib := Path(t)
	f, err := elf.Open(lib)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	want := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[runtime.GOARCH]
	if f.Machine != want {
		t.Errorf("%s is for %v, want %v", lib, f.Machine, want)
	}
}
