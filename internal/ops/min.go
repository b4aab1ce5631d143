package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
)

// Min returns the elementwise minimum of its inputs, broadcast to one shape; NaN propagates
// (https://onnx.ai/onnx/operators/onnx__Min.html).
type Min struct{}

var _ = kit.Register(&kit.Def{Name: "Min", Since: kit.Versions{1, 6, 8, 12, 13}, In: "data_0:T+", Out: "min:T",
	Types:       "T: @number",
	Elementwise: true,
	Build:       kit.WithoutAttrs[Min],
	Gradient:    gradient.Extremes})

var minLoops = elementwise.LoopsOf(
	elementwise.WithKernel2(elementwise.Loop2(minLoop[int8]), vec.MinI8), elementwise.Loop2(minLoop[int16]),
	elementwise.WithKernel2(elementwise.Loop2(minLoop[int32]), vec.MinI32),
	elementwise.WithKernel2(elementwise.Loop2(minLoop[int64]), vec.MinI64),
	elementwise.WithKernel2(elementwise.Loop2(minLoop[uint8]), vec.MinU8), elementwise.Loop2(minLoop[uint16]),
	elementwise.WithKernel2(elementwise.Loop2(minLoop[uint32]), vec.MinU32),
	elementwise.WithKernel2(elementwise.Loop2(minLoop[uint64]), vec.MinU64),
	elementwise.WithBinary(elementwise.Loop2(minLoop[float32]), vec.MinF32, vec.MinScalarF32, vec.MinScalarF32),
	elementwise.WithKernel2(elementwise.Loop2(minLoop[float64]), vec.MinF64))

// Infer implements [ir.Operator].
func (*Min) Infer(c *ir.InferContext) error {
	if err := elementwise.InferVariadic(c); err != nil {
		return err
	}
	d := c.Contents(0)
	for i := 1; i < c.NumIn(); i++ {
		d = kit.BinaryContents(d, c.Contents(i), minDim)
	}
	kit.SetContents(c, c.Elem(0), d)
	return nil
}

func minDim(a, b ir.Dim) ir.Dim {
	x, ok1 := a.Value()
	y, ok2 := b.Value()
	switch {
	case ok1 && ok2:
		return ir.Known(min(x, y))
	case a.Same(b):
		return a
	}
	return ir.Unknown
}

// Run implements [ir.Operator].
func (*Min) Run(c *ir.Call) error { return elementwise.RunVariadic(c, minLoops) }

func minLoop[T kit.RealNumber](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = min(a[i], b[i])
	}
}
