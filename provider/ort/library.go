package ort

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/onward-ml/onward/internal/dl"
	"github.com/onward-ml/onward/provider/internal/native"
)

// Env is the environment variable with the path of ONNX Runtime's library.
const Env = "ONWARD_ORT_LIBRARY"

const ptrSize = unsafe.Sizeof(uintptr(0))

// library is a loaded ONNX Runtime with its OrtEnv. It is never unloaded.
type library struct {
	*dl.Library
	file      string // the file that the path resolves to, "" if unknown
	version   string // "1.30.0"
	build     string // ONNX Runtime's build information
	table     uintptr
	api       int // version of the function table
	env       uintptr
	cpu       uintptr // OrtMemoryInfo of the CPU
	allocator uintptr // the default allocator
	eps       []string

	turn    chan struct{} // holds an element while a session on WebGPU calls ONNX Runtime
	adapter atomic.Bool   // WebGPU has an adapter
	// files of plug-in libraries by execution provider, and after them the values of
	// options that select them
	plugins struct {
		sync.Mutex
		m map[string][]string
	}
	domains   domains
	preloaded sync.Map // *executionProvider → true
	infos     sync.Map // driver.Device → OrtMemoryInfo of its memory
	empty     sync.Map // type of a sequence as text → *session that creates an empty one
}

// opened holds the libraries of this process, defaults the default library of each
// execution provider, without a plug-in that an option names.
var (
	opened   native.Opened[library]
	defaults sync.Map // *executionProvider → *library
)

// open returns the library at a path, or the first one on this machine with the execution
// provider if path is empty. plugin is the option execution_provider_library.
func open(path string, ep *executionProvider, plugin string) (*library, error) {
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
	found, err := opened.Open("ONNX Runtime's library", places, entry, start, func(r *library) error {
		return ep.in(r, plugin)
	})
	if err != nil {
		return nil, err
	}
	if path == "" {
		defaults.Store(ep, found)
	}
	return found, nil
}

// entry is the exported function that returns the function table.
const entry = "OrtGetApiBase"

// start initializes the library of a file that was opened for the first time.
func start(h *dl.Library, file string) (*library, error) {
	r := &library{Library: h, file: file, turn: make(chan struct{}, 1)}
	return r, r.start()
}

// start negotiates the version of the API and creates the OrtEnv.
func (r *library) start() error {
	sym, err := r.Symbol(entry)
	if err != nil {
		return err
	}
	base := dl.Call(sym) // OrtApiBase: GetApi, GetVersionString
	get := func(i uintptr) uintptr { return *(*uintptr)(dl.Pointer(base + i*ptrSize)) }
	r.version = dl.String(dl.Call(get(1)))
	// ONNX Runtime prints an error if the requested version is newer than its own, so the
	// version is taken from the release.
	if r.api, err = apiVersion(r.version); err != nil {
		return err
	}
	if r.table = dl.Call(get(0), uintptr(r.api)); r.table == 0 {
		return fmt.Errorf("ONNX Runtime %s does not offer version %d of its C API", r.version, r.api)
	}
	const fatal = 4 // lesser errors are returned, so they need not be printed
	name := dl.CString("onward")
	if log := logCallback(); log != 0 {
		err = r.do(fnCreateEnvWithCustomLogger, log, 0, fatal, uintptr(unsafe.Pointer(name)),
			uintptr(unsafe.Pointer(&r.env)))
	} else {
		err = r.do(fnCreateEnv, fatal, uintptr(unsafe.Pointer(name)), uintptr(unsafe.Pointer(&r.env)))
	}
	if err != nil {
		return err
	}
	if !keepsTelemetry() {
		// Windows, and releases that do not read the environment variable, need this call.
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

// search is the search order of the package comment.
var search = native.Search{
	Env: Env,
	Bare: map[string][]string{"windows": {"onnxruntime.dll"}, "darwin": {"libonnxruntime.dylib"},
		"": {"libonnxruntime.so.1", "libonnxruntime.so"}},
	Pattern: map[string]string{"windows": "onnxruntime.dll", "darwin": "libonnxruntime*.dylib",
		"": "libonnxruntime.so*"},
	System: []string{"/usr/local/lib", "/opt/onnxruntime*/lib", "/opt/homebrew/lib", "/usr/lib/*-linux-gnu"},
	Python: []string{"onnxruntime", "capi"},
	More:   nodePackages,
	Cache:  []string{"onnxruntime-*", nodeName(runtime.GOARCH)},
}

// nodeName returns Node.js's name of an operating system or architecture.
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
		folders = append(folders, "/usr/local/lib/node_modules", "/usr/lib/node_modules",
			"/opt/homebrew/lib/node_modules")
	}
	for _, d := range folders {
		add("Node package", d, "onnxruntime-node", "bin", "napi-v*", nodeName(runtime.GOOS), nodeName(runtime.GOARCH))
	}
}

// sibling returns the path of an execution provider's library, which is in the folder of
// ONNX Runtime's.
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

// in returns nil if the library has the execution provider and its dependencies load, and
// otherwise an error that says what is missing.
//
// Only ONNX Runtime may load the execution provider's library: its initializers query the
// host that ONNX Runtime sets up before, and a failed query is not repeated in the process.
//
// plugin is the option execution_provider_library.
func (p *executionProvider) in(r *library, plugin string) error {
	if p.pkg != "" {
		if plugin = p.plugin(r, plugin); plugin != "" {
			return r.register(p.name, plugin)
		}
		return nil
	}
	if p.library == "" {
		return nil
	}
	if !slices.Contains(r.eps, p.name) {
		return fmt.Errorf("ONNX Runtime %s has no %s, only %s", r.version, p.name, strings.Join(r.eps, ", "))
	}
	if r.file != "" {
		for _, part := range []string{"shared", p.library} {
			file := r.sibling(part)
			if _, err := os.Stat(file); err != nil {
				return fmt.Errorf("ONNX Runtime %s is installed without %s", r.version, filepath.Base(file))
			}
		}
	}
	if err := r.preload(p); err != nil {
		return err
	}
	var o uintptr
	if err := r.do(fnCreateSessionOptions, uintptr(unsafe.Pointer(&o))); err != nil {
		return err
	}
	defer r.release(fnReleaseSessionOptions, o)
	if err := r.attach(o, p, nil); err != nil {
		file := r.sibling(p.library)
		if missing := missingLibraries(file); missing != nil && r.file != "" {
			return fmt.Errorf("%s needs libraries that do not load:\n      %s", filepath.Base(file),
				strings.Join(missing, "\n      "))
		}
		return fmt.Errorf("ONNX Runtime %s cannot add its %s: %w", r.version, p.name, err)
	}
	return nil
}
