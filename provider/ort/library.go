package ort

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"github.com/onward-ml/onward/internal/dl"
)

// Env names the variable that holds the path of ONNX Runtime's library.
const Env = "ONWARD_ORT_LIBRARY"

const ptrSize = unsafe.Sizeof(uintptr(0))

// library is an open ONNX Runtime with its environment. It stays for the life of
// the process.
type library struct {
	*dl.Library
	file      string // the file behind the path, "" when it is not known
	version   string // "1.30.0"
	build     string // ONNX Runtime's words on its build
	table     uintptr
	api       int // version of the table
	env       uintptr
	cpu       uintptr // OrtMemoryInfo of the CPU
	allocator uintptr // the default allocator
	eps       []string

	empty sync.Map // text of a sequence's type → *session that makes an empty one
}

// opened are the libraries by path, and the default one of each execution
// provider.
var opened struct {
	sync.Mutex
	byPath map[string]*library
	byEP   map[*executionProvider]*library
}

// open returns the library at a path, or with "" the first one on this machine
// that has the execution provider.
func open(path string, ep *executionProvider) (*library, error) {
	opened.Lock()
	defer opened.Unlock()
	if opened.byPath == nil {
		opened.byPath, opened.byEP = map[string]*library{}, map[*executionProvider]*library{}
	}
	places := []dl.Place{{Source: "the option library", Path: path, Must: true}}
	if path == "" {
		if l := opened.byEP[ep]; l != nil {
			return l, nil
		}
		places = defaultPlaces()
	}
	var found *library
	_, err := dl.Open("ONNX Runtime's library", places, func(h *dl.Library) error {
		l := opened.byPath[h.Path]
		if l == nil {
			if filepath.Base(h.Path) == h.Path && loaded(h) {
				return dl.ErrAbsent
			}
			l = &library{Library: h}
			if err := l.start(); err != nil {
				return err
			}
			opened.byPath[h.Path] = l
		}
		if err := ep.in(l); err != nil {
			return err
		}
		found = l
		return nil
	})
	if err != nil {
		return nil, err
	}
	if path == "" {
		opened.byEP[ep] = found
	}
	return found, nil
}

// loaded reports whether the system's loader answers a bare name with a library
// that was opened by its path before: it does so by the name inside the library,
// wherever that lies.
func loaded(h *dl.Library) bool {
	sym, err := h.Symbol("OrtGetApiBase")
	if err != nil {
		return false
	}
	file := fileOf(sym, h.Path)
	for _, l := range opened.byPath {
		if file != "" && l.file == file {
			return true
		}
	}
	return false
}

// start negotiates the version of the API and makes the environment.
func (r *library) start() error {
	sym, err := r.Symbol("OrtGetApiBase")
	if err != nil {
		return err
	}
	r.file = fileOf(sym, r.Path)
	base := dl.Call(sym) // OrtApiBase: GetApi, GetVersionString
	get := func(i uintptr) uintptr { return *(*uintptr)(dl.Pointer(base + i*ptrSize)) }
	r.version = dl.String(dl.Call(get(1)))
	// Asking for a version that the library does not have makes it print: so the
	// release decides what to ask for.
	if r.api, err = apiVersion(r.version); err != nil {
		return err
	}
	if r.table = dl.Call(get(0), uintptr(r.api)); r.table == 0 {
		return fmt.Errorf("ONNX Runtime %s there does not offer version %d of its C API", r.version, r.api)
	}
	const fatal = 4 // errors are returned, they need not be printed too
	if err := r.do(fnCreateEnv, fatal, uintptr(unsafe.Pointer(dl.CString("onward"))), uintptr(unsafe.Pointer(&r.env))); err != nil {
		return err
	}
	const arenaAllocator, memTypeDefault = 1, 0
	if err := r.do(fnCreateCPUMemoryInfo, arenaAllocator, memTypeDefault, uintptr(unsafe.Pointer(&r.cpu))); err != nil {
		return err
	}
	if err := r.do(fnGetAllocatorWithDefaultOptions, uintptr(unsafe.Pointer(&r.allocator))); err != nil {
		return err
	}
	r.build = dl.String(dl.Call(r.address(fnGetBuildInfoString)))
	return r.listProviders()
}

func (r *library) listProviders() error {
	var list uintptr
	var n int32
	if err := r.do(fnGetAvailableProviders, uintptr(unsafe.Pointer(&list)), uintptr(unsafe.Pointer(&n))); err != nil {
		return err
	}
	for i := range uintptr(n) {
		r.eps = append(r.eps, dl.String(*(*uintptr)(dl.Pointer(list + i*ptrSize))))
	}
	return r.do(fnReleaseAvailableProviders, list, uintptr(n))
}

// fileOf returns the file that holds the code at an address, where the system
// tells, else the absolute path; "" for a bare name.
func fileOf(addr uintptr, path string) string {
	if runtime.GOOS == "linux" {
		maps, _ := os.ReadFile("/proc/self/maps")
		for line := range bytes.Lines(maps) {
			var lo, hi uint64
			f := strings.Fields(string(line))
			if len(f) < 6 {
				continue
			}
			if a, b, ok := strings.Cut(f[0], "-"); ok {
				lo, _ = strconv.ParseUint(a, 16, 64)
				hi, _ = strconv.ParseUint(b, 16, 64)
			}
			if lo <= uint64(addr) && uint64(addr) < hi {
				if _, file, ok := strings.Cut(string(line), "/"); ok {
					return "/" + strings.TrimSuffix(file, "\n")
				}
			}
		}
	}
	if filepath.Base(path) == path {
		return ""
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return path
	}
	return abs
}

// names are the file names of ONNX Runtime's library here: the plain one, and
// patterns for those with a version.
func names() (bare []string, pattern string) {
	switch runtime.GOOS {
	case "windows":
		return []string{"onnxruntime.dll"}, "onnxruntime.dll"
	case "darwin":
		return []string{"libonnxruntime.dylib"}, "libonnxruntime*.dylib"
	}
	return []string{"libonnxruntime.so.1", "libonnxruntime.so"}, "libonnxruntime.so*"
}

// defaultPlaces are the places of the package comment.
func defaultPlaces() []dl.Place {
	if p := os.Getenv(Env); p != "" {
		return []dl.Place{{Source: Env, Path: p, Must: true}}
	}
	bare, pattern := names()
	var places []dl.Place
	add := func(source string, elem ...string) {
		if elem[0] != "" && filepath.IsAbs(elem[0]) {
			places = append(places, dl.Place{Source: source, Path: filepath.Join(append(elem, pattern)...)})
		}
	}
	if exe, err := os.Executable(); err == nil {
		add("beside the program", filepath.Dir(exe))
	}
	for _, n := range bare {
		places = append(places, dl.Place{Source: "the system's loader", Path: n})
	}
	if runtime.GOOS != "windows" {
		for _, d := range []string{"/usr/local/lib", "/opt/onnxruntime*/lib", "/opt/homebrew/lib", "/usr/lib/*-linux-gnu"} {
			add("system", d)
		}
	}
	home, _ := os.UserHomeDir()
	for _, e := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		add("Python package of "+e, os.Getenv(e), "lib", "python3*", "site-packages", "onnxruntime", "capi")
		add("Python package of "+e, os.Getenv(e), "Lib", "site-packages", "onnxruntime", "capi")
	}
	add("the user's Python packages", home, ".local", "lib", "python3*", "site-packages", "onnxruntime", "capi")
	if runtime.GOOS != "windows" {
		for _, d := range []string{"/usr/local/lib/python3*/site-packages", "/usr/local/lib/python3*/dist-packages", "/usr/lib/python3*/site-packages", "/usr/lib/python3/dist-packages"} {
			add("the system's Python packages", d, "onnxruntime", "capi")
		}
	}
	platform := []string{"onnxruntime-node", "bin", "napi-v*", map[string]string{"windows": "win32"}[runtime.GOOS], map[string]string{"amd64": "x64"}[runtime.GOARCH]}
	if platform[3] == "" {
		platform[3] = runtime.GOOS
	}
	if platform[4] == "" {
		platform[4] = runtime.GOARCH
	}
	node := filepath.SplitList(os.Getenv("NODE_PATH"))
	if runtime.GOOS != "windows" {
		node = append(node, "/usr/local/lib/node_modules", "/usr/lib/node_modules", "/opt/homebrew/lib/node_modules")
	}
	for _, d := range node {
		add("Node package", append([]string{d}, platform...)...)
	}
	if cache, err := os.UserCacheDir(); err == nil {
		add("the user's cache", cache, "onward", "onnxruntime-*", platform[4])
	}
	return places
}

// sibling returns the file of an execution provider's own library, which lies
// beside ONNX Runtime's.
func (r *library) sibling(ep string) string {
	name := "libonnxruntime_providers_" + ep + ".so"
	switch runtime.GOOS {
	case "windows":
		name = "onnxruntime_providers_" + ep + ".dll"
	case "darwin":
		name = "libonnxruntime_providers_" + ep + ".dylib"
	}
	return filepath.Join(filepath.Dir(r.file), name)
}

// in returns nil when the library has the execution provider and all that this
// needs, else what is missing.
func (p *executionProvider) in(r *library) error {
	if p.library == "" {
		return nil
	}
	if !slices.Contains(r.eps, p.name) {
		return fmt.Errorf("ONNX Runtime %s there has no %s, only %s", r.version, p.name, strings.Join(r.eps, ", "))
	}
	if r.file == "" {
		return nil // the session will tell
	}
	for _, part := range []string{"shared", p.library} {
		file := r.sibling(part)
		_, err := dl.Open(file, []dl.Place{{Source: "beside ONNX Runtime " + r.version, Path: file}}, nil)
		var nf *dl.NotFoundError
		if errors.As(err, &nf) && len(nf.Tried) == 1 {
			err = nf.Tried[0].Err
		}
		switch {
		case errors.Is(err, dl.ErrAbsent):
			return fmt.Errorf("ONNX Runtime %s there comes without %s", r.version, filepath.Base(file))
		case err != nil:
			return fmt.Errorf("%s does not load: %w", filepath.Base(file), err)
		}
	}
	return nil
}
