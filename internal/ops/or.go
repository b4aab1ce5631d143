package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// Or is true where one of the inputs is
// (https://onnx.ai/onnx/operators/onnx__Or.html).
type Or struct{ axisBroadcast }

var _ = register(Def{Name: "Or", Since: []int{1, 7}, In: "A:T, B:T", Out: "C:T1", Types: Types{"T": "bool", "T1": "bool"},
	Build: simple(func(a *Attrs, opset int) Operator {
		return &Or{readAxisBroadcast(a, opset)}
	})})

var orLoops = loopsOf(withWords(loop2(orLoop), orWords))

// Infer implements [ir.Operator].
func (o *Or) Infer(c *ir.InferContext) error {
	return inferBinary(c, o.axisBroadcast, tensor.TypeBool, nil)
}

// Run implements [ir.Operator].
func (o *Or) Run(c *ir.Call) error {
	return runBinary(c, o.axisBroadcast, orLoops, grainCheap)
}

func orLoop(dst, a, b []bool) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] || b[i]
	}
}
