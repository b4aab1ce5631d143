package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
)

// ArgMax returns the index of the largest element along an axis: the first one of equal elements,
// or the last one if SelectLast is set. NaN is larger than every number
// (https://onnx.ai/onnx/operators/onnx__ArgMax.html).
type ArgMax struct{ argReduction }

var _ = kit.Register(&kit.Def{Name: "ArgMax", Since: kit.Versions{1, 11, 12, 13}, In: "data:T", Out: "reduced:int64",
	Types:    "T: @number",
	Build:    func(a *kit.Attrs, opset int) kit.Operator { return &ArgMax{readArgReduction(a, opset)} },
	Gradient: gradient.None})

// Run implements [ir.Operator].
func (o *ArgMax) Run(c *ir.Call) error { return o.RunWith(c, argMax) }
