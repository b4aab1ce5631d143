package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
)

// Max computes the elementwise maximum of its inputs; a NaN wins, all of which broadcast to one shape
// (https://onnx.ai/onnx/operators/onnx__Max.html).
type Max struct{}

var _ = register(Def{Name: "Max", Since: []int{1, 6, 8, 12, 13}, In: "data_0:T+", Out: "max:T", Types: Types{"T": "@number"},
	Build: withoutAttrs(&Max{})})

var maxLoops = loopsOf(
	loop2(maxLoop[int8]), loop2(maxLoop[int16]), loop2(maxLoop[int32]), loop2(maxLoop[int64]),
	loop2(maxLoop[uint8]), loop2(maxLoop[uint16]), loop2(maxLoop[uint32]), loop2(maxLoop[uint64]),
	withBinary(loop2(maxLoop[float32]), vec.MaxF32, vec.MaxScalarF32, vec.MaxScalarF32), loop2(maxLoop[float64]))

// Infer implements [ir.Operator].
func (*Max) Infer(c *ir.InferContext) error {
	if err := inferVariadic(c); err != nil {
		return err
	}
	d := c.Contents(0)
	for i := 1; i < c.NumIn(); i++ {
		d = binaryContents(d, c.Contents(i), maxDim)
	}
	setContents(c, c.Elem(0), d)
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
func (*Max) Run(c *ir.Call) error { return runVariadic(c, maxLoops) }

func maxLoop[T realNumber](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = max(a[i], b[i])
	}
}
