package ops

import "github.com/onward-ml/onward/internal/ops/kit"

// HannWindow is sin²(πt/n) (https://onnx.ai/onnx/operators/onnx__HannWindow.html).
var _ = kit.RegisterWindow("HannWindow", 0.5, -0.5)
