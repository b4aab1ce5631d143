package ops

import "github.com/onward-ml/onward/internal/ops/kit"

// Scatter is the name of ScatterElements before opset 11
// (https://onnx.ai/onnx/operators/onnx__Scatter.html).
var _ = func() *kit.Def {
	d := scatterSignature
	d.Name, d.Since, d.Until, d.Successor = "Scatter", kit.Versions{9}, 10, "ScatterElements"
	return kit.Register(&d)
}()
