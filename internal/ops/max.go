package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
)

// Max returns the elementwise maximum of its inputs, broadcast to one shape; NaN propagates
// (https://onnx.ai/onnx/operators/onnx__Max.html).
type Max struct{}

var _ = kit.Register(&kit.Def{Name: "Max", Since: kit.Versions{1, 6, 8, 12, 13}, In: "data_0:T+", Out: "max:T",
	Types:       "T: @number",
	Elementwise: true,
	Build:       kit.WithoutAttrs[Max],
	Gradient:    gradient.Extremes})

var maxLoops = elementwise.LoopsOf(
	elementwise.WithKernel2(elementwise.Loop2(maxLoop[int8]), vec.MaxI8), elementwise.Loop2(maxLoop[int16]),
	elementwise.WithKernel2(elementwise.Loop2(maxLoop[int32]), vec.MaxI32),
	elementwise.WithKernel2(elementwise.Loop2(maxLoop[int64]), vec.MaxI64),
	elementwise.WithKernel2(elementwise.Loop2(maxLoop[uint8]), vec.MaxU8), elementwise.Loop2(maxLoop[uint16]),
	elementwise.WithKernel2(elementwise.Loop2(maxLoop[uint32]), vec.MaxU32),
	elementwise.WithKernel2(elementwise.Loop2(maxLoop[uint64]), vec.MaxU64),
	elementwise.WithBinary(elementwise.Loop2(maxLoop[float32]), vec.MaxF32, vec.MaxScalarF32, vec.MaxScalarF32),
	elementwise.WithKernel2(elementwise.Loop2(maxLoop[float64]), vec.MaxF64))

// Infer implements [ir.Operator].
func (*Max) Infer(c *ir.InferContext) error {
	if err := elementwise.InferVariadic(c); err != nil {
		return err
	}
	d := c.Contents(0)
	for i := 1; i < c.NumIn(); i++ {
		d = kit.BinaryContents(d, c.Contents(i), maxDim)
	}
	kit.SetContents(c, c.Elem(0), d)
	return nil
}

func maxDim(a, b ir.Dim) ir.Dim {
	x, ok1 := a.Value()
	y, ok2 := b.Value()
	switch {
	case ok1 && ok2:
		return ir.Known(max(x, y))
	case a.Same(b):
		return a
	}
	return ir.Unknown
}

// Run implements [ir.Operator].
func (*Max) Run(c *ir.Call) error { return elementwise.RunVariadic(c, maxLoops) }

func maxLoop[T kit.RealNumber](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = max(a[i], b[i])
	}
}
