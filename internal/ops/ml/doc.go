// Package ml implements the operators of the domain ai.onnx.ml.
package ml
