package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// And is true where both inputs are
// (https://onnx.ai/onnx/operators/onnx__And.html).
type And struct{ axisBroadcast }

var _ = register(Def{Name: "And", Since: []int{1, 7}, In: "A:T, B:T", Out: "C:T1", Types: Types{"T": "bool", "T1": "bool"},
	Build: simple(func(a *Attrs, opset int) Operator {
		return &And{readAxisBroadcast(a, opset)}
	})})

var andLoops = loopsOf(withWords(loop2(andLoop), andWords))

// Infer implements [ir.Operator].
func (o *And) Infer(c *ir.InferContext) error {
	return inferBinary(c, o.axisBroadcast, tensor.TypeBool, nil)
}

// Run implements [ir.Operator].
func (o *And) Run(c *ir.Call) error {
	return runBinary(c, o.axisBroadcast, andLoops, grainCheap)
}

func andLoop(dst, a, b []bool) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] && b[i]
	}
}
