package dl

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"unsafe"
)

// libc returns the C library, which every dynamically linked process has.
func libc(t *testing.T) *Library {
	t.Helper()
	name := map[string]string{"linux": "libc.so.6", "darwin": "/usr/lib/libSystem.B.dylib",
		"windows": "msvcrt.dll"}[runtime.GOOS]
	if name == "" {
		t.Skipf("the name of the C library on %s is not known", runtime.GOOS)
	}
	l, err := Open("the C library", []Place{{Source: "system", Path: name}}, nil)
	if err != nil {
		t.Skip(err)
	}
	return l
}

func TestCall(t *testing.T) {
	l := libc(t)
	strlen, err := l.Symbol("strlen")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"", "a", strings.Repeat("x", 1000)} {
		if n := Call(strlen, uintptr(unsafe.Pointer(CString(s)))); int(n) != len(s) {
			t.Errorf("strlen of %d bytes = %d", len(s), n)
		}
	}
	if _, err := l.Symbol("no_such_function_here"); err == nil ||
		!strings.Contains(err.Error(), "no_such_function_here") {
		t.Errorf("a missing symbol gives %v", err)
	}
}

// The C library keeps one error message for each thread.
func TestReasonsOfConcurrentOpens(t *testing.T) {
	libc(t)
	dir := t.TempDir()
	var wait sync.WaitGroup
	for i := range 32 {
		path := filepath.Join(dir, fmt.Sprintf("library-%d.so", i))
		if err := os.WriteFile(path, []byte("no library"), 0o600); err != nil {
			t.Fatal(err)
		}
		wait.Go(func() {
			for range 200 {
				if _, err := load(path); err == nil || !strings.Contains(err.Error(), path) {
					t.Errorf("%s: the reason is %v", path, err)
					return
				}
				runtime.Gosched()
			}
		})
	}
	wait.Wait()
}

func TestOpenListsEveryPlace(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "libtext.so")
	if err := os.WriteFile(text, []byte("no library"), 0o600); err != nil {
		t.Fatal(err)
	}
	places := []Place{
		{Source: "first", Path: filepath.Join(dir, "absent.so")},
		{Source: "second", Path: filepath.Join(dir, "*.dylib")},
		{Source: "third", Path: filepath.Join(dir, "lib*.so")},
		{Source: "fourth", Path: "libonward_no_such_library.so"},
	}
	_, err := Open("the test library", places, nil)
	var nf *NotFoundError
	if !errors.As(err, &nf) || len(nf.Tried) != 4 {
		t.Fatalf("Open = %v, want a list of 4 places", err)
	}
	for _, want := range []string{"the test library", "absent.so (first): file does not exist",
		"*.dylib (second): file does not exist", text + " (third)", "(fourth)"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error has no %q:\n%v", want, err)
		}
	}
	if !errors.Is(err, ErrAbsent) {
		t.Error("ErrAbsent is not in the chain")
	}
	places[0].Must = true
	if _, err := Open("the test library", places, nil); !errors.As(err, &nf) || len(nf.Tried) != 1 {
		t.Errorf("a place that must do does not end the search: %v", err)
	}
}

func TestOpenAsksToAccept(t *testing.T) {
	l := libc(t)
	no := errors.New("too old")
	if _, err := Open("x", []Place{{Source: "system", Path: l.Path}}, func(*Library) error {
		return no
	}); !errors.Is(err, no) {
		t.Errorf("Open = %v, want %v", err, no)
	}
}

func TestStrings(t *testing.T) {
	b := []byte("abc\x00def\x00")
	p := uintptr(unsafe.Pointer(&b[0]))
	if s := String(p); s != "abc" {
		t.Errorf("String = %q", s)
	}
	if s := string(Bytes(p, 7)); s != "abc\x00def" {
		t.Errorf("Bytes = %q", s)
	}
	if String(0) != "" || Bytes(0, 3) != nil || Array([]int{}) != nil {
		t.Error("null is not empty")
	}
	if list := CStrings([]string{"x", "yz"}); String(uintptr(unsafe.Pointer(list[1]))) != "yz" {
		t.Error("CStrings loses a string")
	}
	runtime.KeepAlive(b)
}
