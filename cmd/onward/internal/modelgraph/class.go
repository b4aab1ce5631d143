package modelgraph

import (
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/onnx"
)

// The classes of items, which are the colors of the page: those of operators,
// and inputs and outputs.
const (
	linearClass     = int(kit.ClassLinear - 1)
	activationClass = int(kit.ClassActivation - 1)
	normalClass     = int(kit.ClassNormalization - 1)
	poolClass       = int(kit.ClassReduction - 1)
	controlClass    = int(kit.ClassControl - 1)
	otherClass      = int(kit.ClassOther - 1)
	portClass       = otherClass + 1
)

// classNames are the names of the classes of operators, in the order of kit.Class.
var classNames = []string{"convolution, matrix product, recurrent", "activation", "normalization", "pooling, reduction",
	"shape, indices", "arithmetic, logic",
	"control flow, function", "other operator"}

// classOf returns the class of a node's operator. Calls of functions with
// subgraphs are control flow.
func classOf(n *onnx.Node) int {
	if d := kit.Registered(n.Domain, n.OpType); d != nil {
		return int(d.Kind() - 1)
	}
	if len(n.Subgraphs()) > 0 {
		return controlClass
	}
	return otherClass
}
