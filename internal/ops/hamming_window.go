package ops

// HammingWindow is α − (1−α)·cos(2πt/n) with α = 25/46
// (https://onnx.ai/onnx/operators/onnx__HammingWindow.html).
var _ = registerWindow("HammingWindow", 25.0/46, -21.0/46)
