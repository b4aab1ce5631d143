package ort

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/dl"
	"github.com/onward-ml/onward/onnx"
	"github.com/onward-ml/onward/provider/internal/native"
)

// webGPUPackage is the Python package with the WebGPU plug-in.
const webGPUPackage = "onnxruntime-ep-webgpu"

var zeroOne = native.Boolean("1", "0")

var cacheMode = oneOf("disabled", "lazyRelease", "simple", "bucket")

// webGPUOptions are the options of the WebGPU execution provider as of ONNX Runtime 1.31
// (onnxruntime/core/providers/webgpu/webgpu_provider_options.h).
var webGPUOptions = map[string]native.Kind{
	"preferredLayout": oneOf("NCHW", "NHWC"), "enableGraphCapture": zeroOne, "sessionBufferPoolGenerations": count,
	"enableInt64":                  zeroOne,
	"multiRotaryCacheConcatOffset": count, "kvCacheQuantizationBits": oneOf("0", "4"), "dawnProcTable": size,
	"dawnBackendType": oneOf("D3D12", "Vulkan"),
	"powerPreference": oneOf("high-performance", "low-power"), "deviceId": count, "webgpuInstance": size,
	"webgpuDevice":           size,
	"storageBufferCacheMode": cacheMode, "uniformBufferCacheMode": cacheMode, "queryResolveBufferCacheMode": cacheMode,
	"defaultBufferCacheMode": cacheMode,
	"validationMode":         oneOf("disabled", "wgpuOnly", "basic", "full"), "enableRobustness": zeroOne,
	"forceCpuNodeNames": text, "enablePIXCapture": zeroOne,
	"preserveDevice": zeroOne, "maxStorageBufferBindingSize": size, "maxNumPendingDispatches": positive,
}

// usesWebGPU reports whether a session may run on WebGPU: ONNX Runtime may select it by a
// policy.
func (r *library) usesWebGPU(s *settings) bool {
	if s.ep == webGPU || s.common[namedProvider] == webGPU.name {
		return true
	}
	r.plugins.Lock()
	defer r.plugins.Unlock()
	return s.common[selectionPolicy] != "" && (slices.Contains(r.eps, webGPU.name) || r.plugins.m[webGPU.name] != nil)
}

// plugin returns the value of execution_provider_library for a registered provider: the
// option, or the package of the plug-in if ONNX Runtime was built without the provider.
func (p *executionProvider) plugin(r *library, option string) string {
	if option == "" && !slices.Contains(r.eps, p.name) {
		return p.pkg
	}
	return option
}

// pluginFile returns the path of a plug-in library. A name without a dot and a slash is that of
// a Python package, whose library is looked for where ONNX Runtime's is.
func (r *library) pluginFile(name string) (string, error) {
	if strings.ContainsAny(name, `/\.`) {
		return name, nil
	}
	folder := strings.ReplaceAll(name, "-", "_")
	part := "onnxruntime_providers_" + strings.TrimPrefix(folder, "onnxruntime_ep_")
	places := native.Search{
		Pattern: map[string]string{"windows": part + ".dll", "darwin": "lib" + part + ".dylib",
			"": "lib" + part + ".so"},
		Python: []string{folder},
		More:   func(add func(string, ...string)) { add("beside ONNX Runtime", filepath.Dir(r.file)) },
		Cache:  []string{"wheel-" + strings.ReplaceAll(name, "_", "-") + "-*"},
	}
	found, err := dl.Open("the library of "+name, places.Places(), func(l *dl.Library) error {
		_, err := l.Symbol("CreateEpFactories")
		return err
	})
	if err != nil {
		return "", err
	}
	return found.Path, nil
}

// findAdapter returns nil if WebGPU has an adapter: a session on it can be created.
func (r *library) findAdapter(s *settings) error {
	if r.adapter.Load() {
		return nil
	}
	b := onnx.NewModel("adapter").Opset("", 16).IRVersion(8)
	b.Input("x", onnx.Float, 1).Output("y", onnx.Float, 1).Node("Identity", []string{"x"}, []string{"y"})
	m, err := b.Model()
	if err != nil {
		return err
	}
	probe, err := r.newSession("", m, s)
	if err != nil {
		return err
	}
	r.adapter.Store(true)
	return probe.Close()
}

// findLoader returns an error if the system has no loader for Vulkan, through which WebGPU reaches
// the GPU on Linux. ONNX Runtime 1.30 then throws a C++ exception, which becomes an error on some
// systems and ends the process on others, such as Ubuntu 24.04. Tests replace it.
var findLoader = sync.OnceValue(func() error {
	if runtime.GOOS != "linux" {
		return nil
	}
	_, err := dl.Open("the loader for Vulkan", []dl.Place{{Source: "the system's loader", Path: "libvulkan.so.1"}}, nil)
	if missing, ok := errors.AsType[*dl.NotFoundError](err); ok {
		return &driver.StatusError{Code: driver.CodeExecutionProvider, Err: err,
			Message: fmt.Sprintf(
				"WebGPU needs a GPU with a driver for Vulkan, and this system has no loader for it: %v",
				missing.Tried[0].Err)}
	}
	return err
})

// do calls a function of the C API that reaches the execution provider. Those for WebGPU run
// one at a time: all sessions of a library record into the command encoder of one context,
// which ONNX Runtime does not guard.
//
//go:uintptrescapes
func (s *session) do(f fn, args ...uintptr) error {
	if s.turn == nil {
		return s.lib.do(f, args...)
	}
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	return s.lib.do(f, args...)
}

// release is [library.release] for values that may be in the memory of the execution provider.
func (s *session) release(f fn, handle uintptr) {
	if s.turn != nil && handle != 0 {
		s.turn <- struct{}{}
		defer func() { <-s.turn }()
	}
	s.lib.release(f, handle)
}

// inTurn calls a function that reaches the execution provider, as do does. It stops waiting
// when ctx ends.
func (s *session) inTurn(ctx context.Context, call func() error) error {
	if s.turn == nil {
		return call()
	}
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return &driver.StatusError{Code: driver.CodeFail, Err: ctx.Err(),
			Message: fmt.Sprintf("the run ended while it waited for another on WebGPU: %v", ctx.Err())}
	}
	defer func() { <-s.turn }()
	return call()
}
