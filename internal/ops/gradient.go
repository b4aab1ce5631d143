package ops

import (
	"fmt"

	"github.com/onward-ml/onward/internal/ops/kit"
)

// Gradient asks for the partial derivatives of one value with respect to others
// (https://onnx.ai/onnx/operators/onnx_aionnxpreviewtraining_Gradient.html).
// It names values of the graph around it, so that nothing but the frontend can
// compute it: there it is replaced by the nodes that do.
type Gradient struct{}

var _ = kit.Register(kit.Def{Domain: kit.DomainPreviewTraining, Name: "Gradient", Since: []int{1}, In: "Inputs:any+", Out: "Outputs:any+",
	Build: func(a *kit.Attrs, opset int) (kit.Operator, error) {
		a.Require("xs", "y")
		a.Ignore("xs", "y", "zs")
		return nil, fmt.Errorf("a Gradient can be computed only in the graph that it differentiates")
	}})
