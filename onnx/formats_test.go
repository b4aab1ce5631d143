package onnx_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/onward-ml/onward/onnx"
)

// TestOtherFormats says what a file is that has the name of a model but another format.
func TestOtherFormats(t *testing.T) {
	for data, want := range map[string]string{
		"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n": "a Git LFS pointer",
		"<!DOCTYPE html>\n<html lang=\"en\">":                                       "an HTML page",
		"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03\xe3":                              "compressed by gzip",
		"PK\x03\x04\x14\x00\x00\x00\x08\x00":                                        "a zip archive",
		"\x1c\x00\x00\x00TFL3\x14\x00\x20\x00":                                      "a TensorFlow Lite model",
		"\x40\x00\x00\x00\x00\x00\x00\x00{\"__metadata__\":{}}":                     "a safetensors file",
		"{\"error\": \"Repository not found\"}":                                     "a JSON file",
	} {
		_, err := onnx.Unmarshal([]byte(data), nil)
		var parse *onnx.ParseError
		if !errors.As(err, &parse) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: error %v, want a *ParseError with %q", data, err, want)
		}
	}
}

// TestNodeDomain splits a qualified operator name into domain and operator.
func TestNodeDomain(t *testing.T) {
	for name, want := range map[string][2]string{"Add": {"", "Add"}, "ai.onnx.ml.Scaler": {"ai.onnx.ml", "Scaler"},
		"com.microsoft.Gelu": {"com.microsoft", "Gelu"}} {
		if n := onnx.NewGraph("g").Node(name, nil, nil).Node(); n.Domain != want[0] || n.OpType != want[1] {
			t.Errorf("%s: domain %q, operator %q", name, n.Domain, n.OpType)
		}
	}
}
