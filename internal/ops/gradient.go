package ops

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ops/kit"
)

// Gradient returns the partial derivatives of a value with respect to others
// (https://onnx.ai/onnx/operators/onnx_aionnxpreviewtraining_Gradient.html). Its attributes name
// values of the enclosing graph, so that it cannot be run by itself: it is replaced by the nodes
// that compute the derivatives.
type Gradient struct{}

var _ = kit.Register(&kit.Def{Domain: kit.DomainPreviewTraining, Name: "Gradient", Since: kit.Versions{1},
	In: "Inputs:any+", Out: "Outputs:any+",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		a.Require("xs", "y")
		a.Ignore("xs", "y", "zs")
		return a.Fail(fail.Errorf("Gradient can only be computed in the graph that it differentiates"))
	}})
