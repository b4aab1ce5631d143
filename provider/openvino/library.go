package openvino

import (
	"os"
	"sync"
	"unsafe"

	"github.com/onward-ml/onward/internal/dl"
	"github.com/onward-ml/onward/provider/internal/native"
)

// Env is the environment variable with the path of OpenVINO's C library.
const Env = "ONWARD_OPENVINO_LIBRARY"

const ptrSize = unsafe.Sizeof(uintptr(0))

// library is a loaded OpenVINO with its ov_core_t. It is never unloaded.
type library struct {
	*dl.Library
	file    string // the file that the path resolves to, "" if unknown
	version string // "2026.4.1-22982-0d4e8b3d1e2-releases/2026/4"
	table   [functions]uintptr
	core    uintptr

	// loading is held while a model is read and compiled, because most errors occur then and
	// OpenVINO keeps only one error text.
	loading sync.Mutex

	elements func() (*elementTypes, error)
}

// search is the search order of the package comment.
var search = native.Search{
	Env: Env,
	Bare: map[string][]string{"windows": {"openvino_c.dll"}, "darwin": {"libopenvino_c.dylib"},
		"": {"libopenvino_c.so"}},
	Pattern: map[string]string{"windows": "openvino_c.dll", "darwin": "libopenvino_c*.dylib", "": "libopenvino_c.so*"},
	System: []string{"/usr/local/lib", "/opt/intel/openvino*/runtime/lib/*", "/opt/homebrew/lib",
		"/usr/lib/*-linux-gnu", "/usr/lib64"},
	Python: []string{"openvino", "libs"},
	More: func(add func(string, ...string)) {
		// OpenVINO's setupvars script sets this variable.
		add("INTEL_OPENVINO_DIR", os.Getenv("INTEL_OPENVINO_DIR"), "runtime", "lib", "*")
		add("INTEL_OPENVINO_DIR", os.Getenv("INTEL_OPENVINO_DIR"), "runtime", "bin", "*", "Release")
	},
	Cache: []string{"openvino-*"},
}

// opened holds the libraries of this process, initial the default one.
var (
	opened  native.Opened[library]
	initial struct {
		sync.Mutex
		*library
	}
)

// open returns the library at a path, or the first one on this machine if path is empty.
func open(path string) (*library, error) {
	const what = "OpenVINO's C library"
	if path != "" {
		return opened.Open(what, []dl.Place{{Source: "the option library", Path: path, Must: true}},
			symbols[fnCoreCreate], start, nil)
	}
	initial.Lock()
	defer initial.Unlock()
	if initial.library == nil {
		l, err := opened.Open(what, search.Places(), symbols[fnCoreCreate], start, nil)
		if err != nil {
			return nil, err
		}
		initial.library = l
	}
	return initial.library, nil
}

// start looks up the functions and creates the core.
func start(h *dl.Library, file string) (*library, error) {
	r := &library{Library: h, file: file}
	for f, name := range symbols {
		p, err := h.Symbol(name)
		if err != nil && fn(f) < firstOptional {
			return nil, err
		}
		r.table[f] = p
	}
	var v [2]uintptr // ov_version_t: build number, description
	if err := r.do(fnGetVersion, uintptr(unsafe.Pointer(&v[0]))); err != nil {
		return nil, err
	}
	r.version = dl.String(v[0])
	dl.Call(r.table[fnVersionFree], uintptr(unsafe.Pointer(&v[0])))
	if err := r.do(fnCoreCreate, uintptr(unsafe.Pointer(&r.core))); err != nil {
		return nil, err
	}
	r.elements = sync.OnceValues(r.queryElements)
	return r, nil
}

// devices returns the names of the devices that OpenVINO's plug-ins find.
func (r *library) devices() ([]string, error) {
	var list [2]uintptr // ov_available_devices_t: names, number
	var err error
	dl.KeepSignalStack(func() { err = r.do(fnGetDevices, r.core, uintptr(unsafe.Pointer(&list[0]))) })
	if err != nil {
		return nil, err
	}
	defer dl.Call(r.table[fnDevicesFree], uintptr(unsafe.Pointer(&list[0])))
	var names []string
	for i := range list[1] {
		names = append(names, dl.String(*(*uintptr)(dl.Pointer(list[0] + i*ptrSize))))
	}
	return names, nil
}
