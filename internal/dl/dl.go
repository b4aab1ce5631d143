// Package dl opens native libraries and calls their functions without cgo, so
// that a driver costs its users no C compiler.
//
// A driver names the places where its library may lie, in order ([Place]), and
// [Open] takes the first that loads. When none does, the error lists every place
// with the reason.
package dl

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"unsafe"
)

// ErrUnsupported says that native libraries cannot be opened on this platform.
var ErrUnsupported = errors.New("native libraries cannot be opened on " + runtime.GOOS + "/" + runtime.GOARCH)

// Library is an open native library. It stays open until the process ends: native
// runtimes keep threads of their own and do not survive being unloaded.
type Library struct {
	Path   string // as it was opened: a path, or a bare name that the system's loader found
	Source string // the place's, in words
	handle uintptr
}

// Place is one place where a library may lie.
type Place struct {
	Source string // where the path comes from, in words: "ONWARD_ORT_LIBRARY"
	// Path is a file, a pattern of path/filepath's Match, or a bare name for the
	// system's loader. Of several matches the last in natural order is tried first:
	// the newest version.
	Path string
	// Must stops the search when the place fails: the user has named it.
	Must bool
}

// Attempt is a place that was tried, and why it failed.
type Attempt struct {
	Source, Path string
	Err          error
}

// NotFoundError lists every place that was looked at.
type NotFoundError struct {
	What  string // the library in words: "ONNX Runtime's library"
	Tried []Attempt
}

// Error has a line for each place.
func (e *NotFoundError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s could not be opened; looked at:", e.What)
	for _, a := range e.Tried {
		fmt.Fprintf(&b, "\n  %s (%s): %v", a.Path, a.Source, a.Err)
	}
	if len(e.Tried) == 0 {
		b.WriteString(" no place at all")
	}
	return b.String()
}

// Unwrap returns the reasons.
func (e *NotFoundError) Unwrap() []error {
	r := make([]error, len(e.Tried))
	for i, a := range e.Tried {
		r[i] = a.Err
	}
	return r
}

// ErrAbsent is the reason of a place where nothing lies.
var ErrAbsent = errors.New("not there")

// Open opens the first library in places that loads and that accept takes. accept
// may be nil; its error is the reason in the list. The error is a *[NotFoundError].
func Open(what string, places []Place, accept func(*Library) error) (*Library, error) {
	fail := &NotFoundError{What: what}
	for _, p := range places {
		paths, err := p.expand()
		if err != nil {
			fail.Tried = append(fail.Tried, Attempt{p.Source, p.Path, err})
		}
		for _, path := range paths {
			l := &Library{Path: path, Source: p.Source}
			if l.handle, err = load(path); err == nil && accept != nil {
				err = accept(l)
			}
			if err == nil {
				return l, nil
			}
			fail.Tried = append(fail.Tried, Attempt{p.Source, path, err})
		}
		if p.Must {
			break
		}
	}
	return nil, fail
}

// expand returns the files that a place names.
func (p Place) expand() ([]string, error) {
	if filepath.Base(p.Path) == p.Path {
		return []string{p.Path}, nil
	}
	m, err := filepath.Glob(p.Path)
	if err != nil {
		return nil, fmt.Errorf("bad pattern: %w", err)
	}
	if len(m) == 0 {
		return nil, ErrAbsent
	}
	slices.SortFunc(m, func(a, b string) int { return natural(b, a) })
	return m, nil
}

// natural compares strings with runs of digits as numbers: 1.9 before 1.10.
func natural(a, b string) int {
	digits := func(s string) int {
		n := 0
		for n < len(s) && s[n] >= '0' && s[n] <= '9' {
			n++
		}
		return n
	}
	for a != "" && b != "" {
		n, m := digits(a), digits(b)
		if n > 0 && m > 0 {
			x, y := strings.TrimLeft(a[:n], "0"), strings.TrimLeft(b[:m], "0")
			if len(x) != len(y) {
				return len(x) - len(y)
			}
			if c := strings.Compare(x, y); c != 0 {
				return c
			}
			a, b = a[n:], b[m:]
			continue
		}
		if a[0] != b[0] {
			return int(a[0]) - int(b[0])
		}
		a, b = a[1:], b[1:]
	}
	return len(a) - len(b)
}

// Symbol returns the address of a function or variable of the library.
func (l *Library) Symbol(name string) (uintptr, error) {
	p, err := symbol(l.handle, name)
	if err == nil && p == 0 {
		err = errors.New("its address is null")
	}
	if err != nil {
		return 0, fmt.Errorf("symbol %s of %s: %w", name, l.Path, err)
	}
	return p, nil
}

// Call calls a C function that takes and returns integers and pointers only, at
// most 15 of them. Go memory may be passed as uintptr(unsafe.Pointer(p)) in the
// call itself: it is kept alive for the call. Memory that the function keeps must
// be kept alive by the caller.
//
//go:uintptrescapes
func Call(fn uintptr, args ...uintptr) uintptr {
	return call(fn, args)
}

// Callback makes a C function of a Go function that takes and returns uintptr only.
// It stays for the life of the process, and there may be a few thousand: make one for
// all uses. It is 0 where native libraries cannot be opened.
func Callback(fn any) uintptr { return callback(fn) }

// Pointer makes a pointer of an address that a C function returned.
func Pointer(p uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&p)) }

// Bytes is the n bytes of C memory at p, not copied; nil for a null pointer.
func Bytes(p uintptr, n int) []byte {
	if p == 0 || n <= 0 {
		return nil
	}
	return unsafe.Slice((*byte)(Pointer(p)), n)
}

// String copies the NUL-terminated C string at p; "" for a null pointer.
func String(p uintptr) string {
	if p == 0 {
		return ""
	}
	n := 0
	for *(*byte)(unsafe.Add(Pointer(p), n)) != 0 {
		n++
	}
	return string(Bytes(p, n))
}

// CString returns s with a NUL behind it. What lies behind a NUL inside of s is
// lost to C.
func CString(s string) *byte {
	b := make([]byte, len(s)+1)
	copy(b, s)
	return &b[0]
}

// CStrings is [CString] for a list, as a C array of pointers; nil for none.
func CStrings(list []string) []*byte {
	r := make([]*byte, len(list))
	for i, s := range list {
		r[i] = CString(s)
	}
	return r
}

// Array is the address of a slice's first element, null for an empty one, to be
// passed in a call as uintptr(Array(s)).
func Array[T any](s []T) unsafe.Pointer {
	if len(s) == 0 {
		return nil
	}
	return unsafe.Pointer(unsafe.SliceData(s))
}
