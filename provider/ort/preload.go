package ort

import (
	"debug/elf"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/onward-ml/onward/internal/dl"
	"github.com/onward-ml/onward/provider/internal/native"
)

// providers is the file of the ONNX Runtime whose execution providers this process uses.
var providers struct {
	sync.Mutex
	file string
}

// preload opens the libraries of an execution provider that the loader does not find. It searches
// NVIDIA's Python packages and installers, as preload_dlls of ONNX Runtime's Python package does.
// Libraries on the loader's path take precedence.
//
// It fails if the process uses the execution providers of another ONNX Runtime: they find
// their host by a global symbol, so those of a second one would call the first.
func (r *library) preload(p *executionProvider) error {
	providers.Lock()
	defer providers.Unlock()
	if providers.file != "" && providers.file != r.file {
		return fmt.Errorf(
			"this process uses the execution providers of %s already, and can use those of one ONNX Runtime only",
			providers.file)
	}
	providers.file = r.file
	if _, done := r.preloaded.LoadOrStore(p, true); done || r.file == "" || p.device != "cuda" {
		return nil
	}
	found := map[string]string{}
	for _, pattern := range nvidiaFolders(r.file) {
		files, _ := filepath.Glob(filepath.Join(pattern, "lib*.so*")) // the patterns are valid
		for _, f := range files {
			if name := filepath.Base(f); found[name] == "" {
				found[name] = f
			}
		}
	}
	preloadNeeded(r.sibling(p.library), found)
	// The CUDA provider opens these by name when it first needs them.
	for name := range found {
		for _, lazy := range []string{"libcudnn", "libcufft.", "libnvrtc."} {
			if strings.HasPrefix(name, lazy) {
				openFirst(name, found)
			}
		}
	}
	return nil
}

// nvidiaFolders returns the folders, as patterns, of the Python packages beside ONNX
// Runtime's and in the Python environments, and those of NVIDIA's installers.
func nvidiaFolders(file string) []string {
	sites := []string{filepath.Dir(filepath.Dir(filepath.Dir(file)))} // onnxruntime/capi/libonnxruntime.so
	for _, s := range native.SitePackages() {
		sites = append(sites, s.Path)
	}
	var dirs []string
	for _, s := range sites {
		dirs = append(dirs, filepath.Join(s, "nvidia", "*", "lib"), filepath.Join(s, "tensorrt_libs"))
	}
	return append(dirs, "/usr/local/cuda/lib64", "/usr/local/cuda-*/lib64", "/usr/local/cuda*/targets/*/lib",
		"/opt/tensorrt*/lib", "/usr/local/tensorrt*/lib")
}

// preloadNeeded opens the libraries that an ELF library needs, and those that they need.
func preloadNeeded(file string, found map[string]string) {
	for _, name := range imported(file) {
		if found[name] != "" {
			openFirst(name, found)
		}
	}
}

// openFirst opens a library by name, or from found if the loader does not find it. An error
// is not returned: what is missing is found out when the execution provider is added.
func openFirst(name string, found map[string]string) {
	if _, err := dl.Open(name, []dl.Place{{Path: name}}, nil); err == nil {
		return
	}
	file := found[name]
	delete(found, name) // a cycle ends
	preloadNeeded(file, found)
	_, _ = dl.Open(name, []dl.Place{{Path: file}}, nil)
}

// imported returns the names of the libraries that an ELF library needs, without
// those of ONNX Runtime.
func imported(file string) []string {
	f, err := elf.Open(file)
	if err != nil {
		return nil
	}
	defer f.Close()
	needed, err := f.ImportedLibraries()
	if err != nil {
		return nil
	}
	// Only ONNX Runtime may load its own.
	return slices.DeleteFunc(needed, func(name string) bool { return strings.Contains(name, "onnxruntime") })
}

// missingLibraries returns the load errors of the dependencies of an ELF library. They are
// opened by name, as the loader does, and in the folder of the library.
func missingLibraries(file string) []string {
	var missing []string
	for _, name := range imported(file) {
		_, err := dl.Open(name, []dl.Place{{Path: name}, {Path: filepath.Join(filepath.Dir(file), name)}}, nil)
		if nf, ok := errors.AsType[*dl.NotFoundError](err); ok {
			missing = append(missing, nf.Tried[0].Err.Error())
		}
	}
	return missing
}
