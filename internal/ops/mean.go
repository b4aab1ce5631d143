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
func (*Mean) Run(c *ir.Call) error { return runSum(c, float64(c.NumIn())) }

// runSum adds all inputs and divides by the given number. Half numbers are added
// as float32 and rounded once.
func runSum(c *ir.Call, divisor float64) error {
	in, shapes, shape, err := variadicInputs(c)
	if err != nil {
		return err
	}
	out, err := c.Output(0, in[0].DType(), shape...)
	if err != nil {
		return err
	}
	sum := out
	if isHalf(out.DType()) {
		for i := range in {
			if in[i], err = toScratch(c, in[i], tensor.TypeFloat32); err != nil {
				return err
			}
		}
		if sum, err = scratchTensor(c, tensor.TypeFloat32, shape); err != nil {
			return err
		}
	}
	if err := foldInto(c, addLoops, sum, in, shapes); err != nil {
		return err
	}
	if divisor != 1 {
		l := loop1(func(dst, src []float32) { divLoop(dst, src, []float32{float32(divisor)}) })
		if sum.DType() == tensor.TypeFloat64 {
			l = loop1(func(dst, src []float64) { divLoop(dst, src, []float64{divisor}) })
		}
		if err := runLoopInto(c, l, grainCheap, sum, []*tensor.Tensor{sum}, [][]int{shape}); err != nil {
			return err
		}
	}
	if sum == out {
		return nil
	}
	return convertInto(c, out, sum, tensor.ConvertOptions{})
}
