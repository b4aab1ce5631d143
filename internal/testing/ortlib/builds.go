package ortlib

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/testing/store"
)

// Build is a Python wheel with execution providers that the package of [Fetch] lacks. It is
// for linux/amd64.
type Build struct {
	Name  string // for messages
	wheel store.Wheel
	from  string // folder in the wheel
	main  string // name of the library to open
	skip  string // what begins with it is not needed
}

const platform = "manylinux_2_28_x86_64"

// The builds. Their folders in the cache are not named onnxruntime-*, which the default
// search of provider/ort would find.
var (
	// GPU has the CUDA and TensorRT providers for CUDA 13.
	GPU = Build{Name: "ONNX Runtime with CUDA", from: "onnxruntime/capi/", main: "libonnxruntime.so.1.31.1",
		skip: "onnxruntime_pybind11",
		wheel: store.Wheel{Requirement: "onnxruntime-gpu==1.31.1", Platform: platform,
			File: "onnxruntime_gpu-1.31.1-cp311-cp311-" + platform + ".whl",
			Sum:  "e26c475fe361b2015f45b4b824bd13f0bb20204e59b62814e6f0acd5f3d491a6"}}
	// OpenVINO has the OpenVINO provider, and OpenVINO 2025.4.
	OpenVINO = Build{Name: "ONNX Runtime with OpenVINO", from: "onnxruntime/capi/", main: "libonnxruntime.so.1.24.1",
		skip: "onnxruntime_pybind11",
		wheel: store.Wheel{Requirement: "onnxruntime-openvino==1.24.1", Platform: platform,
			File: "onnxruntime_openvino-1.24.1-cp311-cp311-" + platform + ".whl",
			Sum:  "3007c803634cc69c6d52af1dea7ce729d9bb62b9a11070fd2f959119199007a8"}}
	// WebGPU is the plug-in with the WebGPU provider.
	WebGPU = Build{Name: "ONNX Runtime's WebGPU plug-in", from: "onnxruntime_ep_webgpu/",
		main: "libonnxruntime_providers_webgpu.so",
		wheel: store.Wheel{Requirement: "onnxruntime-ep-webgpu==0.4.0", Platform: platform,
			File: "onnxruntime_ep_webgpu-0.4.0-py3-none-" + platform + ".whl",
			Sum:  "5d8c961eda91a88961cad1fb7621f389f006b18497d6ea9ecf96f729f066cbfb"}}
)

// Builds returns all builds.
func Builds() []Build { return []Build{GPU, OpenVINO, WebGPU} }

func (b Build) folder() (string, error) {
	if at := runtime.GOOS + "/" + runtime.GOARCH; at != "linux/amd64" {
		return "", fmt.Errorf("%w: %s is for linux/amd64, not for %s", ErrAbsent, b.wheel.Requirement, at)
	}
	return store.Path("wheel-" + strings.ReplaceAll(b.wheel.Requirement, "==", "-"))
}

// Find returns the library in the cache. It downloads nothing, and returns
// [ErrAbsent] for a library that is not cached.
func (b Build) Find() (string, error) {
	dir, err := b.folder()
	if err != nil {
		return "", err
	}
	if r, err := store.Lookup(dir); err != nil || r.Archive != b.wheel.Sum {
		return "", fmt.Errorf("%w: %s", ErrAbsent, b.Name)
	}
	return filepath.Join(dir, b.main), nil
}

// Path is Find for tests, which it skips if the library is absent.
func (b Build) Path(t testing.TB) string {
	t.Helper()
	lib, err := b.Find()
	if errors.Is(err, ErrAbsent) {
		t.Skipf("%v: skipped; `make test-devices` fetches it", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return lib
}

// Fetch makes the library available to Find and returns its path and source: a complete copy
// in the cache, or the wheel by pip.
func (b Build) Fetch(ctx context.Context) (lib, source string, err error) {
	dir, err := b.folder()
	if err != nil {
		return "", "", err
	}
	lib = filepath.Join(dir, b.main)
	if r, err := store.Verify(dir); err == nil && r.Archive == b.wheel.Sum {
		return lib, r.Source + ", cached", nil
	}
	wheel, err := b.wheel.Download(ctx)
	if err != nil {
		return "", "", err
	}
	r, err := store.Install(dir, "", func(into string) (store.Record, error) {
		return store.Record{Source: "wheel " + b.wheel.Requirement, Version: b.wheel.Requirement, Archive: b.wheel.Sum},
			b.unpack(wheel, into)
	})
	return lib, r.Source, err
}

// unpack extracts the libraries of a wheel.
func (b Build) unpack(wheel []byte, into string) error {
	found := false
	_, err := store.ExtractZipAs(wheel, into, func(name string) (string, bool) {
		rel, ok := strings.CutPrefix(name, b.from)
		ok = ok && path.Base(rel) == rel && strings.Contains(rel, ".so") &&
			(b.skip == "" || !strings.HasPrefix(rel, b.skip))
		found = found || ok && rel == b.main
		return rel, ok
	})
	if err == nil && !found {
		err = fmt.Errorf("the wheel %s does not contain %s", b.wheel.File, b.main)
	}
	return err
}

// Options returns the options of an execution provider, which the error for an unknown one
// lists. The program must import package provider/ort.
func Options(t testing.TB, provider string) []string {
	t.Helper()
	err := driver.Lookup(provider).Available(driver.Config{Name: provider, Options: map[string]string{"?": ""}})
	_, list, ok := strings.Cut(fmt.Sprint(err), " has ")
	list, _, ok2 := strings.Cut(list, ";")
	if !ok || !ok2 {
		t.Fatalf("no list of options in %v", err)
	}
	return strings.Split(list, ", ")
}
