package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// Mean computes the elementwise mean of its inputs, all of which broadcast to
// one shape (https://onnx.ai/onnx/operators/onnx__Mean.html).
type Mean struct{}

var _ = register(Def{Name: "Mean", Since: []int{1, 6, 8, 13}, In: "data_0:T+", Out: "mean:T", Types: Types{"T": "@float"},
	Build: withoutAttrs(&Mean{})})

// Infer implements [ir.Operator].
func (*Mean) Infer(c *ir.InferContext) error { return inferVariadic(c) }

// Run implements [ir.Operator].
func (*Mean) Run(c *ir.Call) error {
	if err := runVariadic(c, addLoops); err != nil {
		return err
	}
	n := c.NumIn()
	out := c.Out[0].(*tensor.Tensor)
	var l elementLoop
	if out.DType() == tensor.TypeFloat64 {
		l = loop1(func(dst, src []float64) { divLoop(dst, src, []float64{float64(n)}) })
	} else {
		l = loop1(func(dst, src []float32) { divLoop(dst, src, []float32{float32(n)}) })
		if out.DType() != tensor.TypeFloat32 {
			l = widenedLoop(l, out.DType())
		}
	}
	return runLoopInto(c, l, grainCheap, out, []*tensor.Tensor{out}, [][]int{out.Shape()})
}
