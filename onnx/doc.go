// Package onnx reads, writes, checks and builds ONNX files.
//
// It implements the file format (onnx.proto, Apache-2.0, https://github.com/onnx/onnx) and does not
// run models. [ReadFile] and [Unmarshal] read a [Model], [WriteFile] and [Model.Marshal] write one,
// [Check] validates it, and [NewModel] builds one in Go.
//
// Reading untrusted bytes never panics, and [ReadOptions] bound the memory that it takes.
package onnx
