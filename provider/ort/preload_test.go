package ort

import (
	"slices"
	"testing"
)

func TestNVIDIAFolders(t *testing.T) {
	t.Setenv("VIRTUAL_ENV", "/env")
	got := nvidiaFolders("/python/site-packages/onnxruntime/capi/libonnxruntime.so.1.31.1")
	for _, want := range []string{"/python/site-packages/nvidia/*/lib", "/python/site-packages/tensorrt_libs",
		"/env/lib/python3*/site-packages/nvidia/*/lib", "/usr/local/cuda/lib64"} {
		if !slices.Contains(got, want) {
			t.Errorf("%s is not in %v", want, got)
		}
	}
	if got[0] != "/python/site-packages/nvidia/*/lib" {
		t.Errorf("the first folder is %s, want the one beside ONNX Runtime", got[0])
	}
}
