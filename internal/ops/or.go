package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/tensor"
)

// Or returns whether at least one input is true (https://onnx.ai/onnx/operators/onnx__Or.html).
type Or struct{ elementwise.AxisBroadcast }

var _ = kit.Register(&kit.Def{Name: "Or", Since: kit.Versions{1, 7}, In: "A:T, B:T", Out: "C:T1",
	Types:       "T: bool; T1: bool",
	Elementwise: true, Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &Or{elementwise.ReadAxisBroadcast(a, opset)}
	},
	Gradient: gradient.None})

var orLoops = elementwise.LoopsOf(elementwise.WithWords(elementwise.Loop2(orLoop), elementwise.OrWords))

// Infer implements [ir.Operator].
func (o *Or) Infer(c *ir.InferContext) error {
	return elementwise.InferBinary(c, o.AxisBroadcast, tensor.TypeBool, nil)
}

// Run implements [ir.Operator].
func (o *Or) Run(c *ir.Call) error {
	return elementwise.RunBinary(c, o.AxisBroadcast, orLoops, kit.GrainCheap)
}

func orLoop(dst, a, b []bool) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] || b[i]
	}
}
