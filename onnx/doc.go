// Package onnx reads, writes, checks and builds ONNX files.
//
// It knows the format (onnx.proto, Apache-2.0, https://github.com/onnx/onnx) and not how to run it.
// [ReadFile] and [Unmarshal] make a [Model] from bytes, [Model.Marshal] and [WriteFile] make bytes from
// a [Model], [Check] says whether a model is valid, and [NewModel] begins a model in Go.
//
// Bytes from outside never panic and never allocate without a bound: see [ReadOptions].
package onnx
