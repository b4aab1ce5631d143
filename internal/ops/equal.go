package ops

import (
	"strings"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/tensor"
)

// Equal tells where two tensors have equal elements; NaN equals nothing
// (https://onnx.ai/onnx/operators/onnx__Equal.html).
type Equal struct{ axisBroadcast }

var _ = register(Def{Name: "Equal", Since: []int{1, 7, 11, 13, 19}, In: "A:T, B:T", Out: "C:T1",
	Types: Types{"T": "bool @number string", "T1": "bool"},
	Build: simple(func(a *Attrs, opset int) Operator {
		return &Equal{readAxisBroadcast(a, opset)}
	})})

var equalLoops = loopsOf(loop2(equalLoop[bool]),
	loop2(equalLoop[int8]), loop2(equalLoop[int16]), withCompare(loop2(equalLoop[int32]), vec.EqualI32, false), withCompare(loop2(equalLoop[int64]), vec.EqualI64, false),
	loop2(equalLoop[uint8]), loop2(equalLoop[uint16]), loop2(equalLoop[uint32]), loop2(equalLoop[uint64]),
	withCompare(loop2(equalLoop[float32]), vec.EqualF32, false), loop2(equalLoop[float64]))

// Infer implements [ir.Operator].
func (o *Equal) Infer(c *ir.InferContext) error {
	return inferBinary(c, o.axisBroadcast, tensor.TypeBool, equalDim)
}

// equalDim is 1 or 0 where elements of two shape values are known to be equal or
// not; [Where] takes it for a condition.
func equalDim(a, b ir.Dim) ir.Dim {
	switch {
	case a.Same(b):
		return ir.Known(1)
	case a.Differs(b) || isNegative(a) && isDimension(b) || isNegative(b) && isDimension(a):
		return ir.Known(0)
	}
	return ir.Unknown
}

func isNegative(d ir.Dim) bool {
	n, ok := d.Value()
	return ok && n < 0
}

// isDimension reports whether d is an expression that cannot be negative, as
// symbols stand for dimensions.
func isDimension(d ir.Dim) bool {
	return !d.IsKnown() && !d.IsUnknown() && !strings.Contains(d.String(), "-")
}

// Run implements [ir.Operator].
func (o *Equal) Run(c *ir.Call) error {
	if c.Tensor(0).DType() != tensor.TypeString {
		return runBinary(c, o.axisBroadcast, equalLoops, grainCheap)
	}
	a, b := c.Tensor(0), c.Tensor(1)
	shape, bShape, err := o.shapes(a.Shape(), b.Shape())
	if err != nil {
		return err
	}
	out, err := c.Output(0, tensor.TypeBool, shape...)
	if err != nil {
		return err
	}
	dst, x, y := tensor.Of[bool](out), tensor.Of[string](a), tensor.Of[string](b)
	eachBroadcastIndex(shape, [][]int{a.Shape(), bShape}, func(i int, at []int) {
		dst[i] = x[at[0]] == y[at[1]]
	})
	return nil
}

func equalLoop[T realNumber | bool](dst []bool, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] == b[i]
	}
}

// eachBroadcastIndex calls fn for every element of the output with the positions
// of the elements of the inputs that belong to it. It is for strings; numbers
// have broadcastLoop.
func eachBroadcastIndex(out []int, shapes [][]int, fn func(i int, at []int)) {
	n := product(out)
	strides := make([][]int, len(shapes))
	for k, s := range shapes {
		strides[k] = broadcastStrides(s, out)
	}
	at, index := make([]int, len(shapes)), make([]int, len(out))
	for i := range n {
		fn(i, at)
		for d := len(out) - 1; d >= 0; d-- {
			index[d]++
			if index[d] < out[d] {
				for k := range at {
					at[k] += strides[k][d]
				}
				break
			}
			for k := range at {
				at[k] -= strides[k][d] * (out[d] - 1)
			}
			index[d] = 0
		}
	}
}
