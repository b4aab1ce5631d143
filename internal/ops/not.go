package ops

import "github.com/onward-ml/onward/internal/ir"

// Not negates each truth value
// (https://onnx.ai/onnx/operators/onnx__Not.html).
type Not struct{ sameTypeAndShape }

var _ = register(Def{Name: "Not", Since: []int{1}, In: "X:T", Out: "Y:T", Types: Types{"T": "bool"},
	Build: withoutAttrs(&Not{})})

// Run implements [ir.Operator].
func (*Not) Run(c *ir.Call) error { return mapTable(c, notLoops, grainCheap) }

func notLoop(dst, src []bool) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = !x
	}
}
