// Package fakecuda builds a stand-in for CUDA's libraries, with which ONNX Runtime's own
// CUDA and TensorRT providers load and run without a GPU.
//
// What only copies computes right results: Identity, Reshape, sequences, IOBinding, tensors
// on the device. Memory of the device cannot be read by the CPU at its addresses, and copies
// run only when the program synchronizes with their stream. Kernels, cuBLAS, cuDNN and
// TensorRT compute nothing.
//
// The C compiler is $CC, or cc or gcc. Without one, tests are skipped.
package fakecuda

import (
	"cmp"
	"context"
	"debug/elf"
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/onward-ml/onward/internal/dl"
	"github.com/onward-ml/onward/internal/testing/ortlib"
	"github.com/onward-ml/onward/internal/testing/store"
)

//go:embed src/*.c
var sources embed.FS

// ErrAbsent is returned on machines on which the libraries cannot be built.
var ErrAbsent = errors.New("the stand-in for CUDA cannot be built")

// Counters are what the stand-in has counted in this process. The order of the fields is
// that of cudart.c.
type Counters struct {
	Mallocs, Frees, HostMallocs, HostFrees int64
	Streams, DestroyedStreams              int64
	ToDevice, ToHost, OnDevice             int64 // copies
	Launches                               int64 // kernels
	Misuses                                int64 // such as copies outside of allocated memory
}

const runtimeLibrary = "libcudart.so.13"

// own names the source of each library that does not consist of stubs alone.
var own = map[string]string{runtimeLibrary: "cudart.c", "libnvinfer.so.10": "nvinfer.c",
	"libnvonnxparser.so.10": "nvinfer.c"}

// unversioned are the prefixes of symbols that carry no version, by library.
var unversioned = map[string]string{"libcuda.so.1": "cu", "libnvinfer.so.10": "createInfer",
	"libnvonnxparser.so.10": "createNvOnnx"}

// Build compiles the libraries that ONNX Runtime's CUDA and TensorRT providers need, and
// installs them below dir as pip installs NVIDIA's packages in a virtual environment. lib is
// the path of ONNX Runtime's library. Functions without a source of their own return 0.
func Build(ctx context.Context, lib, dir string) error {
	if runtime.GOOS != "linux" || unsafe.Sizeof(uintptr(0)) != 8 {
		return fmt.Errorf("%w on %s/%s: it is for 64-bit Linux", ErrAbsent, runtime.GOOS, runtime.GOARCH)
	}
	var cc string
	for _, name := range []string{os.Getenv("CC"), "cc", "gcc"} {
		if path, err := exec.LookPath(cmp.Or(name, "cc")); err == nil {
			cc = path
			break
		}
	}
	if cc == "" {
		return fmt.Errorf("%w: found no C compiler", ErrAbsent)
	}
	symbols := map[string]map[string]bool{}
	for _, ep := range []string{"cuda", "tensorrt"} {
		if err := imports(filepath.Join(filepath.Dir(lib), "libonnxruntime_providers_"+ep+".so"), symbols); err != nil {
			return err
		}
	}
	if symbols[runtimeLibrary] == nil {
		return fmt.Errorf("%w for %s: want a build for CUDA 13", ErrAbsent, lib)
	}
	dir = filepath.Join(dir, "lib", "python3", "site-packages", "nvidia", "fake", "lib")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	src, err := os.MkdirTemp("", "onward-fakecuda-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(src)
	if err := os.CopyFS(src, sources); err != nil {
		return err
	}
	for name, list := range symbols {
		if err := compile(ctx, cc, filepath.Join(src, "src"), filepath.Join(dir, name), list); err != nil {
			return err
		}
	}
	return nil
}

// imports adds the symbols that a library imports from CUDA, by library.
func imports(file string, symbols map[string]map[string]bool) error {
	f, err := elf.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	needed, err := f.ImportedLibraries()
	if err != nil {
		return err
	}
	list, err := f.ImportedSymbols()
	if err != nil {
		return err
	}
	for _, name := range needed {
		if !strings.HasPrefix(name, "libcu") && !strings.HasPrefix(name, "libnv") {
			continue
		}
		if symbols[name] == nil {
			symbols[name] = map[string]bool{}
		}
		for _, s := range list {
			prefix := unversioned[name]
			if s.Version != "" && s.Library == name || s.Library == "" && prefix != "" &&
				strings.HasPrefix(s.Name, prefix) {
				symbols[name][s.Name] = true
			}
		}
	}
	return nil
}

// compile writes one library: its source, and stubs for the other symbols. They are weak, so
// that a definition in the source takes their place. A Create function makes a handle.
func compile(ctx context.Context, cc, src, out string, symbols map[string]bool) error {
	name := filepath.Base(out)
	var stubs strings.Builder
	for s := range symbols {
		if base := strings.TrimSuffix(s, "_v2"); strings.HasPrefix(s, "cu") && strings.HasSuffix(base, "Create") {
			fmt.Fprintf(&stubs,
				"__attribute__((weak)) long %s(void **h) { static char handle[64]; *h = handle; return 0; }\n", s)
			continue
		}
		fmt.Fprintf(&stubs, "__attribute__((weak)) long %s(void) { return 0; }\n", s)
	}
	stub, versions := filepath.Join(src, name+".stubs.c"), filepath.Join(src, name+".map")
	// Some symbols are imported with the name of the library as their version.
	err := errors.Join(os.WriteFile(stub, []byte(stubs.String()), 0o600),
		os.WriteFile(versions, []byte(name+" { global: *; };\n"), 0o600))
	if err != nil {
		return err
	}
	args := []string{cc, "-shared", "-fPIC", "-O1", "-o", out, "-Wl,-soname," + name,
		"-Wl,--version-script=" + versions, stub}
	if own[name] != "" {
		args = append(args, filepath.Join(src, own[name]))
	}
	_, err = store.Run(ctx, "", append(args, "-lpthread")...)
	return err
}

// environment is the folder of this process's stand-in, and ONNX Runtime's library.
var environment = sync.OnceValues(func() ([2]string, error) {
	lib, err := ortlib.GPU.Find()
	if err != nil {
		return [2]string{}, err
	}
	dir, err := os.MkdirTemp("", "onward-fakecuda-")
	if err != nil {
		return [2]string{}, err
	}
	return [2]string{dir, lib}, Build(context.Background(), lib, dir)
})

// Use makes the providers of ONNX Runtime's GPU build find the stand-in during a test. It
// skips the test if the build is not on this machine or the stand-in cannot be compiled.
// Main must run the tests.
func Use(t testing.TB) {
	t.Helper()
	e, err := environment()
	switch {
	case errors.Is(err, ErrAbsent) || errors.Is(err, ortlib.ErrAbsent):
		t.Skipf("%v; `make test-devices` fetches ONNX Runtime's GPU build", err)
	case err != nil:
		t.Fatal(err)
	}
	t.Setenv("VIRTUAL_ENV", e[0])
	t.Setenv(ortlib.Env, e[1])
}

// Main runs the tests of a package and removes the stand-in.
func Main(m *testing.M) {
	code := m.Run()
	if e, _ := environment(); e[0] != "" {
		os.RemoveAll(e[0])
	}
	os.Exit(code)
}

// Count returns the counters of the stand-in, which a provider has loaded.
func Count() (Counters, error) {
	l, err := dl.Open("the stand-in for CUDA", []dl.Place{{Path: runtimeLibrary}}, nil) // by its soname
	if err != nil {
		return Counters{}, err
	}
	f, err := l.Symbol("fakecudaCounters")
	if err != nil {
		return Counters{}, err
	}
	c := new(Counters)
	dl.Call(f, uintptr(unsafe.Pointer(c)))
	return *c, nil
}
