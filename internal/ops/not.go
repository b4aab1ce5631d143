package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
)

// Not negates each bool (https://onnx.ai/onnx/operators/onnx__Not.html).
type Not struct{ kit.SameTypeAndShape }

var _ = kit.Register(&kit.Def{Name: "Not", Since: kit.Versions{1}, In: "X:T", Out: "Y:T", Types: "T: bool",
	Elementwise: true,
	Build:       kit.WithoutAttrs[Not],
	Gradient:    gradient.None})

// Run implements [ir.Operator].
func (*Not) Run(c *ir.Call) error {
	return elementwise.MapTable(c, elementwise.NotLoops, kit.GrainCheap)
}
