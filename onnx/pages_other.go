//go:build !linux

package onnx

func dropPages([]byte) {} // not supported; the mapping ends soon
