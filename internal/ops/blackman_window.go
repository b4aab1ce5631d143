package ops

// BlackmanWindow is 0.42 − 0.5·cos(2πt/n) + 0.08·cos(4πt/n)
// (https://onnx.ai/onnx/operators/onnx__BlackmanWindow.html).
var _ = registerWindow("BlackmanWindow", 0.42, -0.5, 0.08)
