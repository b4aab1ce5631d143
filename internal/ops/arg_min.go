package ops

import "github.com/onward-ml/onward/internal/ir"

// ArgMin finds the index of the least element along an axis, the first one of
// equals unless SelectLast is set; a NaN counts as least
// (https://onnx.ai/onnx/operators/onnx__ArgMin.html).
type ArgMin struct{ argReduction }

var _ = register(Def{Name: "ArgMin", Since: []int{1, 11, 12, 13}, In: "data:T", Out: "reduced:int64", Types: Types{"T": "@number"},
	Build: simple(func(a *Attrs, opset int) Operator { return &ArgMin{readArgReduction(a, opset)} })})

// Run implements [ir.Operator].
func (o *ArgMin) Run(c *ir.Call) error { return o.run(c, argMin) }
