// Package dl opens native libraries and calls their functions without cgo, so that users of a
// driver need no C compiler.
//
// A driver lists the paths where its library may be ([Place]), and [Open] opens the first one that
// loads. If none does, the error lists every path with the reason.
package dl

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"unsafe"

	"github.com/onward-ml/onward/internal/natural"
)

// ErrUnsupported is the error of platforms on which native libraries cannot be opened.
var ErrUnsupported = errors.New("native libraries cannot be opened on " + runtime.GOOS + "/" + runtime.GOARCH)

// Library is an open native library. It stays open until the process ends: the libraries have
// threads of their own and cannot be unloaded safely.
type Library struct {
	Path   string // as opened: a path, or a name that the system's loader resolved
	Source string // description of the Place
	handle uintptr
}

// Place is a location where a library may be.
type Place struct {
	Source string // origin of the path, for people: "ONWARD_ORT_LIBRARY"
	// Path is a file, a pattern for filepath.Match, or a name that the system's loader resolves. Of
	// several matches the last one in natural order, the newest version, is tried first.
	Path string
	// Must ends the search if this place fails, because the user asked for it.
	Must bool
}

// Attempt is a path that was tried and the reason why it failed.
type Attempt struct {
	Source, Path string
	Err          error
}

// String returns the path, its source and the reason, as a line of [NotFoundError] has them.
func (a Attempt) String() string { return fmt.Sprintf("%s (%s): %v", a.Path, a.Source, a.Err) }

// NotFoundError lists all paths that were tried.
type NotFoundError struct {
	What  string // the library, for people: "ONNX Runtime's library"
	Tried []Attempt
}

// Error returns a line for each path.
func (e *NotFoundError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s could not be opened; looked at:", e.What)
	for _, a := range e.Tried {
		b.WriteString("\n  " + a.String())
	}
	if len(e.Tried) == 0 {
		b.WriteString(" no place at all")
	}
	return b.String()
}

// Absent returns the lines of Error about paths that do not exist.
func (e *NotFoundError) Absent() []string {
	var lines []string
	for _, a := range e.Tried {
		if errors.Is(a.Err, ErrAbsent) {
			lines = append(lines, a.String())
		}
	}
	return lines
}

// Unwrap returns the reasons.
func (e *NotFoundError) Unwrap() []error {
	r := make([]error, len(e.Tried))
	for i, a := range e.Tried {
		r[i] = a.Err
	}
	return r
}

// ErrAbsent is the reason if no file matches.
var ErrAbsent = errors.New("file does not exist")

// Open opens the first library in places that loads and that accept accepts. accept may be nil; its
// error becomes the reason in the list. Errors are of type *[NotFoundError].
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

// expand returns the files that match the place.
func (p Place) expand() ([]string, error) {
	if filepath.Base(p.Path) == p.Path {
		return []string{p.Path}, nil
	}
	m, err := filepath.Glob(p.Path)
	if err != nil {
		return nil, fmt.Errorf("invalid pattern: %w", err)
	}
	if len(m) == 0 {
		return nil, ErrAbsent
	}
	slices.SortFunc(m, func(a, b string) int { return natural.Compare(b, a) })
	return m, nil
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

// Call calls a C function that takes and returns integers and pointers only, at most 15 of them.
// Go memory may be passed as uintptr(unsafe.Pointer(p)) in the call expression: it is kept alive
// during the call. The caller must keep memory alive that the function retains.
//
//go:uintptrescapes
func Call(fn uintptr, args ...uintptr) uintptr {
	return call(fn, args)
}

// Callback returns a C function that calls fn, a Go function that takes and returns uintptr only.
// It is never freed, and a process can have a few thousand: create one and reuse it. It returns 0
// if native libraries are not supported.
func Callback(fn any) uintptr { return callback(fn) }

// Pointer converts an address that a C function returned to a pointer.
func Pointer(p uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&p)) }

// Bytes returns the n bytes of C memory at p, without copying; nil if p is null.
func Bytes(p uintptr, n int) []byte {
	if p == 0 || n <= 0 {
		return nil
	}
	return unsafe.Slice((*byte)(Pointer(p)), n)
}

// String returns a copy of the NUL-terminated C string at p; "" if p is null.
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

// CString returns a NUL-terminated copy of s. C sees s only up to its first NUL.
func CString(s string) *byte {
	b := make([]byte, len(s)+1)
	copy(b, s)
	return &b[0]
}

// CStrings returns a C array of pointers to copies of the strings, as [CString] makes them; nil if
// list is empty.
func CStrings(list []string) []*byte {
	r := make([]*byte, len(list))
	for i, s := range list {
		r[i] = CString(s)
	}
	return r
}

// Array returns the address of a slice's first element, or null if it is empty. Pass it in a call
// as uintptr(Array(s)).
func Array[T any](s []T) unsafe.Pointer {
	if len(s) == 0 {
		return nil
	}
	return unsafe.Pointer(unsafe.SliceData(s))
}
