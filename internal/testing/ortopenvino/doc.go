// Package ortopenvino tests the provider ort:openvino on a CPU, with the build of ONNX Runtime
// in the Python package onnxruntime-openvino. It has its own test binary, because a process can
// use the execution providers of one ONNX Runtime only.
package ortopenvino
