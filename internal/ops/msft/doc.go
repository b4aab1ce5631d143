// Package msft implements the operators of the domain com.microsoft, which ONNX Runtime
// defines
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md).
package msft
