package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/tensor"
)

// And returns whether both inputs are true (https://onnx.ai/onnx/operators/onnx__And.html).
type And struct{ elementwise.AxisBroadcast }

var _ = kit.Register(&kit.Def{Name: "And", Since: kit.Versions{1, 7}, In: "A:T, B:T", Out: "C:T1",
	Types:       "T: bool; T1: bool",
	Elementwise: true, Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &And{elementwise.ReadAxisBroadcast(a, opset)}
	},
	Gradient: gradient.None})

var andLoops = elementwise.LoopsOf(elementwise.WithWords(elementwise.Loop2(andLoop), elementwise.AndWords))

// Infer implements [ir.Operator].
func (o *And) Infer(c *ir.InferContext) error {
	return elementwise.InferBinary(c, o.AxisBroadcast, tensor.TypeBool, nil)
}

// Run implements [ir.Operator].
func (o *And) Run(c *ir.Call) error {
	return elementwise.RunBinary(c, o.AxisBroadcast, andLoops, kit.GrainCheap)
}

func andLoop(dst, a, b []bool) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] && b[i]
	}
}
