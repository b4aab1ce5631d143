package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/tensor"
)

// Equal returns whether corresponding elements are equal. NaN is not equal to anything
// (https://onnx.ai/onnx/operators/onnx__Equal.html).
type Equal struct{ elementwise.AxisBroadcast }

var _ = kit.Register(&kit.Def{Name: "Equal", Since: kit.Versions{1, 7, 11, 13, 19}, In: "A:T, B:T", Out: "C:T1",
	Types:       "T: bool @number string; T1: bool",
	Elementwise: true, Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &Equal{elementwise.ReadAxisBroadcast(a, opset)}
	},
	Gradient: gradient.None})

var equalLoops = elementwise.SameBits(elementwise.WithKernel2(elementwise.Loop2(equalLoop[bool]), vec.EqualU8),
	elementwise.WithKernel2(elementwise.Loop2(equalLoop[int8]), vec.EqualU8), elementwise.Loop2(equalLoop[int16]),
	elementwise.WithCompare(elementwise.Loop2(equalLoop[int32]), vec.EqualI32, false),
	elementwise.WithCompare(elementwise.Loop2(equalLoop[int64]), vec.EqualI64, false),
	elementwise.WithCompare(elementwise.Loop2(equalLoop[float32]), vec.EqualF32, false),
	elementwise.WithCompare(elementwise.Loop2(equalLoop[float64]), vec.EqualF64, false))

// Infer implements [ir.Operator].
func (o *Equal) Infer(c *ir.InferContext) error {
	return elementwise.InferBinary(c, o.AxisBroadcast, tensor.TypeBool, equalDim)
}

// equalDim returns 1 or 0 if two elements of shape values are known to be equal or different.
// [Where] accepts it as a condition.
func equalDim(a, b ir.Dim) ir.Dim {
	switch {
	case a.Same(b):
		return ir.Known(1)
	case a.Differs(b) || isNegative(a) && kit.IsDimension(b) || isNegative(b) && kit.IsDimension(a):
		return ir.Known(0)
	}
	return ir.Unknown
}

func isNegative(d ir.Dim) bool {
	n, ok := d.Value()
	return ok && n < 0
}

// Run implements [ir.Operator].
func (o *Equal) Run(c *ir.Call) error {
	if c.Tensor(0).DType() != tensor.TypeString {
		return elementwise.RunBinary(c, o.AxisBroadcast, equalLoops, kit.GrainCheap)
	}
	a, b := c.Tensor(0), c.Tensor(1)
	shape, bShape, err := o.Shapes(a.Shape(), b.Shape())
	if err != nil {
		return err
	}
	out, err := c.Output(0, tensor.TypeBool, shape...)
	if err != nil {
		return err
	}
	dst, x, y := tensor.MustData[bool](out), tensor.MustData[string](a), tensor.MustData[string](b)
	elementwise.EachBroadcastIndex(shape, [][]int{a.Shape(), bShape}, func(i int, at []int) {
		dst[i] = x[at[0]] == y[at[1]]
	})
	return nil
}

func equalLoop[T kit.RealNumber | bool](dst []bool, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] == b[i]
	}
}
