// Package msft holds the operators of com.microsoft, which ONNX Runtime defines
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md).
package msft
