// Package ml holds the operators of ai.onnx.ml.
package ml
