package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
)

// ArgMin returns the index of the smallest element along an axis: the first one of equal elements,
// or the last one if SelectLast is set. NaN is smaller than every number
// (https://onnx.ai/onnx/operators/onnx__ArgMin.html).
type ArgMin struct{ argReduction }

var _ = kit.Register(&kit.Def{Name: "ArgMin", Since: kit.Versions{1, 11, 12, 13}, In: "data:T", Out: "reduced:int64",
	Types:    "T: @number",
	Build:    func(a *kit.Attrs, opset int) kit.Operator { return &ArgMin{readArgReduction(a, opset)} },
	Gradient: gradient.None})

// Run implements [ir.Operator].
func (o *ArgMin) Run(c *ir.Call) error { return o.RunWith(c, argMin) }
