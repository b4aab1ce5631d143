package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/tensor"
)

// Xor returns whether exactly one input is true (https://onnx.ai/onnx/operators/onnx__Xor.html).
type Xor struct{ elementwise.AxisBroadcast }

var _ = kit.Register(&kit.Def{Name: "Xor", Since: kit.Versions{1, 7}, In: "A:T, B:T", Out: "C:T1",
	Types:       "T: bool; T1: bool",
	Elementwise: true, Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &Xor{elementwise.ReadAxisBroadcast(a, opset)}
	}})

var xorLoops = elementwise.LoopsOf(elementwise.WithWords(elementwise.Loop2(xorLoop), elementwise.XorWords))

// Infer implements [ir.Operator].
func (o *Xor) Infer(c *ir.InferContext) error {
	return elementwise.InferBinary(c, o.AxisBroadcast, tensor.TypeBool, nil)
}

// Run implements [ir.Operator].
func (o *Xor) Run(c *ir.Call) error {
	return elementwise.RunBinary(c, o.AxisBroadcast, xorLoops, kit.GrainCheap)
}

func xorLoop(dst, a, b []bool) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] != b[i]
	}
}
