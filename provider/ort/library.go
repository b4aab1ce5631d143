package ort

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"github.com/onward-ml/onward/internal/dl"
	"github.com/onward-ml/onward/provider/internal/native"
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

	plugins struct { // libraries of execution providers, by name
		sync.Mutex
		m map[string]string
	}
	infos sync.Map // driver.Device → OrtMemoryInfo of its memory
	empty sync.Map // text of a sequence's type → *session that makes an empty one
}

// opened are the libraries of this process, and the default one of each execution
// provider.
var (
	opened   native.Opened[library]
	defaults sync.Map // *executionProvider → *library
)

// open returns the library at a path, or with "" the first one on this machine
// that has the execution provider.
func open(path string, ep *executionProvider) (*library, error) {
	places := []dl.Place{{Source: "the option library", Path: path, Must: true}}
	if path == "" {
		if l, ok := defaults.Load(ep); ok {
			return l.(*library), nil
		}
		places = search.Places()
	}
	if err := withoutTelemetry(); err != nil {
		return nil, err
	}
	found, err := opened.Open("ONNX Runtime's library", places, entry, start, ep.in)
	if err != nil {
		return nil, err
	}
	if path == "" {
		defaults.Store(ep, found)
	}
	return found, nil
}

// entry is the function that all others are reached by.
const entry = "OrtGetApiBase"

// start makes the library of a file that was opened for the first time.
func start(h *dl.Library, file string) (*library, error) {
	r := &library{Library: h, file: file}
	return r, r.start()
}

// start negotiates the version of the API and makes the environment.
func (r *library) start() error {
	sym, err := r.Symbol(entry)
	if err != nil {
		return err
	}
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
	name := dl.CString("onward")
	if log := logCallback(); log != 0 {
		err = r.do(fnCreateEnvWithCustomLogger, log, 0, fatal, uintptr(unsafe.Pointer(name)), uintptr(unsafe.Pointer(&r.env)))
	} else {
		err = r.do(fnCreateEnv, fatal, uintptr(unsafe.Pointer(name)), uintptr(unsafe.Pointer(&r.env)))
	}
	if err != nil {
		return err
	}
	if !keepsTelemetry() {
		// Releases that do not know the environment variable, and Windows, have this function only.
		if err := r.do(fnDisableTelemetryEvents, r.env); err != nil {
			return err
		}
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

// search is that of the package comment.
var search = native.Search{
	Env:     Env,
	Bare:    map[string][]string{"windows": {"onnxruntime.dll"}, "darwin": {"libonnxruntime.dylib"}, "": {"libonnxruntime.so.1", "libonnxruntime.so"}},
	Pattern: map[string]string{"windows": "onnxruntime.dll", "darwin": "libonnxruntime*.dylib", "": "libonnxruntime.so*"},
	System:  []string{"/usr/local/lib", "/opt/onnxruntime*/lib", "/opt/homebrew/lib", "/usr/lib/*-linux-gnu"},
	Python:  []string{"onnxruntime", "capi"},
	More:    nodePackages,
	Cache:   []string{"onnxruntime-*", nodeName(runtime.GOARCH)},
}

// nodeName is Node's name of an operating system or architecture.
func nodeName(name string) string {
	switch name {
	case "windows":
		return "win32"
	case "amd64":
		return "x64"
	}
	return name
}

func nodePackages(add func(source string, elem ...string)) {
	folders := filepath.SplitList(os.Getenv("NODE_PATH"))
	if runtime.GOOS != "windows" {
		folders = append(folders, "/usr/local/lib/node_modules", "/usr/lib/node_modules", "/opt/homebrew/lib/node_modules")
	}
	for _, d := range folders {
		add("Node package", d, "onnxruntime-node", "bin", "napi-v*", nodeName(runtime.GOOS), nodeName(runtime.GOARCH))
	}
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
//
// ONNX Runtime itself has to load the execution provider's library: that asks for its
// host while it is loaded, and without ONNX Runtime's preparations finds none for as
// long as the process lives.
func (p *executionProvider) in(r *library) error {
	if p.library == "" {
		return nil
	}
	if !slices.Contains(r.eps, p.name) {
		return fmt.Errorf("ONNX Runtime %s there has no %s, only %s", r.version, p.name, strings.Join(r.eps, ", "))
	}
	if r.file != "" {
		for _, part := range []string{"shared", p.library} {
			file := r.sibling(part)
			if _, err := os.Stat(file); err != nil {
				return fmt.Errorf("ONNX Runtime %s there comes without %s", r.version, filepath.Base(file))
			}
		}
	}
	var o uintptr
	if err := r.do(fnCreateSessionOptions, uintptr(unsafe.Pointer(&o))); err != nil {
		return err
	}
	defer r.release(fnReleaseSessionOptions, o)
	if err := r.attach(o, p, nil); err != nil {
		file := r.sibling(p.library)
		if missing := missingLibraries(file); missing != nil && r.file != "" {
			return fmt.Errorf("%s needs libraries that do not load:\n      %s", filepath.Base(file), strings.Join(missing, "\n      "))
		}
		return fmt.Errorf("ONNX Runtime %s there cannot add its %s: %w", r.version, p.name, err)
	}
	return nil
}

// missingLibraries returns which of the libraries that an ELF library names do not
// load, and why. They are looked for by the loader and beside the library.
func missingLibraries(file string) []string {
	f, err := elf.Open(file)
	if err != nil {
		return nil
	}
	defer f.Close()
	needed, err := f.ImportedLibraries()
	if err != nil {
		return nil
	}
	var missing []string
	for _, name := range needed {
		if strings.Contains(name, "onnxruntime") {
			continue // loaded by ONNX Runtime alone
		}
		_, err := dl.Open(name, []dl.Place{{Path: name}, {Path: filepath.Join(filepath.Dir(file), name)}}, nil)
		if nf, ok := errors.AsType[*dl.NotFoundError](err); ok {
			missing = append(missing, nf.Tried[0].Err.Error())
		}
	}
	return missing
}
