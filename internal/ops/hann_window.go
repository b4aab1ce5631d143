package ops

// HannWindow is sin²(πt/n) (https://onnx.ai/onnx/operators/onnx__HannWindow.html).
var _ = registerWindow("HannWindow", 0.5, -0.5)
