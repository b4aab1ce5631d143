package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// Xor is true where exactly one of the inputs is
// (https://onnx.ai/onnx/operators/onnx__Xor.html).
type Xor struct{ axisBroadcast }

var _ = register(Def{Name: "Xor", Since: []int{1, 7}, In: "A:T, B:T", Out: "C:T1", Types: Types{"T": "bool", "T1": "bool"},
	Build: simple(func(a *Attrs, opset int) Operator {
		return &Xor{readAxisBroadcast(a, opset)}
	})})

var xorLoops = loopsOf(withWords(loop2(xorLoop), xorWords))

// Infer implements [ir.Operator].
func (o *Xor) Infer(c *ir.InferContext) error {
	return inferBinary(c, o.axisBroadcast, tensor.TypeBool, nil)
}

// Run implements [ir.Operator].
func (o *Xor) Run(c *ir.Call) error {
	return runBinary(c, o.axisBroadcast, xorLoops, grainCheap)
}

func xorLoop(dst, a, b []bool) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] != b[i]
	}
}
