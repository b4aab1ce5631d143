package ort

import (
	"errors"
	"strings"
	"testing"

	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/testing/ortlib"
	"github.com/onward-ml/onward/onnx"
)

// TestWebGPUNeedsVulkan: without a loader for Vulkan, no session reaches ONNX Runtime, which
// may end the process.
func TestWebGPUNeedsVulkan(t *testing.T) {
	lib, find := ortlib.Path(t), findLoader
	defer func() { findLoader = find }()
	const reason = "libvulkan.so.1 is not there"
	findLoader = func() error { return &driver.StatusError{Code: driver.CodeExecutionProvider, Message: reason} }
	b := onnx.NewModel("m").Opset("", 16).IRVersion(8)
	b.Input("x", onnx.Float, 1).Output("y", onnx.Float, 1)
	b.Node("Relu", []string{"x"}, []string{"y"})
	m, err := b.Model()
	if err != nil {
		t.Fatal(err)
	}
	for p, want := range map[provider]string{{"ort:webgpu", webGPU}: reason, {"ort", cpu}: ""} {
		config := driver.Config{Name: p.name, Options: map[string]string{"library": lib}}
		e, err := p.Compile(t.Context(), &driver.Model{Model: m}, &driver.Options{}, config)
		if want == "" {
			if err != nil {
				t.Fatal(err)
			}
			e.Close()
			continue
		}
		if status, ok := errors.AsType[*driver.StatusError](err); !ok || status.Code != driver.CodeExecutionProvider ||
			!strings.Contains(status.Message, want) {
			t.Errorf("%s: Compile: %v, want %q", p.name, err, want)
		}
		if err := p.Available(config); err == nil || strings.Count(err.Error(), "ONNXRuntimeError") > 1 ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: Available: %v, want %q", p.name, err, want)
		}
	}
}
