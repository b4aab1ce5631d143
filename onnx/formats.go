package onnx

import (
	"bytes"

	"github.com/onward-ml/onward/internal/fail"
)

// otherFormats lists files that are found under the name of a model, by their first bytes, and what
// to do about them.
var otherFormats = []struct {
	offset      int
	magic, what string
}{
	{0, "version https://git-lfs", "a Git LFS pointer, not the model: run git lfs pull in its repository"},
	{0, "<!DOCTYPE", "an HTML page, not a model: the download was not the file itself"},
	{0, "<!doctype", "an HTML page, not a model: the download was not the file itself"},
	{0, "<html", "an HTML page, not a model: the download was not the file itself"},
	{0, "<?xml", "an XML file, for example the graph of an OpenVINO model, not an ONNX model"},
	{0, "\x1f\x8b", "compressed by gzip: decompress it first"},
	{0, "\x28\xb5\x2f\xfd", "compressed by Zstandard: decompress it first"},
	{0, "\xfd7zXZ", "compressed by xz: decompress it first"},
	{0, "PK\x03\x04", "a zip archive, for example a PyTorch checkpoint, not an ONNX model"},
	{0, "\x89HDF\r\n", "an HDF5 file, for example a Keras model, not an ONNX model"},
	{0, "\x80\x02", "a pickled Python object, for example a PyTorch checkpoint, not an ONNX model"},
	{0, "\x80\x04", "a pickled Python object, not an ONNX model"},
	{0, "GGUF", "a GGUF model, not an ONNX model"},
	{0, "{", "a JSON file, not an ONNX model"},
	{4, "TFL3", "a TensorFlow Lite model, not an ONNX model"},
	{4, "ORTM", "an ORT format model of ONNX Runtime: use the .onnx file that it was converted from"},
	{8, "{\"", "a safetensors file, not an ONNX model"},
}

// otherFormat returns an error that names the format of data, if it is known and is
// not ONNX, or nil.
func otherFormat(data []byte) error {
	for _, f := range otherFormats {
		if len(data) > f.offset && bytes.HasPrefix(data[f.offset:], []byte(f.magic)) {
			return fail.Errorf("the file is %s", f.what)
		}
	}
	return nil
}
