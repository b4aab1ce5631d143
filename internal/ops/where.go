package ops

import (
	"fmt"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// Where takes elements of X where the condition is true and of Y elsewhere
// (https://onnx.ai/onnx/operators/onnx__Where.html).
type Where struct{}

var _ = register(Def{Name: "Where", Since: []int{9, 16}, In: "condition:B, X:T, Y:T", Out: "output:T",
	Types: Types{"B": "bool", "T": "@number string bool @complex"},
	Build: withoutAttrs(&Where{})})

// Infer implements [ir.Operator].
func (*Where) Infer(c *ir.InferContext) error {
	shape, err := broadcastDims(c.Shape(0), c.Shape(1), c.Shape(2))
	if err != nil {
		return err
	}
	c.SetOut(0, ir.Type{Kind: tensor.KindTensor, Elem: c.Elem(1), Shape: shape})
	cond := c.Const(0)
	if cond == nil || shape == nil || len(shape) > 1 || cond.DType() != tensor.TypeBool {
		return nil
	}
	x, y := c.Contents(1), c.Contents(2)
	if x == nil || y == nil {
		return nil
	}
	which := tensor.Of[bool](cond)
	n := max(len(which), len(x), len(y))
	for _, l := range []int{len(which), len(x), len(y)} {
		if l != n && l != 1 {
			return nil
		}
	}
	r := make([]ir.Dim, n)
	for i := range r {
		if which[min(i, len(which)-1)] {
			r[i] = x[min(i, len(x)-1)]
		} else {
			r[i] = y[min(i, len(y)-1)]
		}
	}
	setContents(c, c.Elem(1), r)
	return nil
}

// Run implements [ir.Operator].
func (*Where) Run(c *ir.Call) error {
	cond, x, y := c.Tensor(0), c.Tensor(1), c.Tensor(2)
	shapes := [][]int{cond.Shape(), x.Shape(), y.Shape()}
	shape, err := broadcastShapes(shapes...)
	if err != nil {
		return err
	}
	d := x.DType()
	if d == tensor.TypeString {
		out, err := c.Output(0, d, shape...)
		if err != nil {
			return err
		}
		dst, which := tensor.Of[string](out), tensor.Of[bool](cond)
		from := [2][]string{tensor.Of[string](x), tensor.Of[string](y)}
		eachBroadcastIndex(shape, shapes, func(i int, at []int) {
			if which[at[0]] {
				dst[i] = from[0][at[1]]
			} else {
				dst[i] = from[1][at[2]]
			}
		})
		return nil
	}
	l := elementLoop{in: d, out: d, arity: 3}
	switch d.Size() {
	case 1:
		l.run = whereLoop[uint8]
	case 2:
		l.run = whereLoop[uint16]
	case 4:
		l.run = whereLoop[uint32]
	case 8:
		l.run = whereLoop[uint64]
	case 16:
		l.run = whereLoop[[2]uint64]
	default:
		return fmt.Errorf("elements of type %s are not supported", d)
	}
	return runLoop(c, l, grainCheap, shape, []*tensor.Tensor{cond, x, y}, shapes)
}

func whereLoop[T any](out []byte, in *[3][]byte) {
	dst, x, y := tensor.FromRaw[T](out), tensor.FromRaw[T](in[1]), tensor.FromRaw[T](in[2])
	which := tensor.FromRaw[bool](in[0])
	which, x, y = which[:len(dst)], x[:len(dst)], y[:len(dst)]
	for i := range dst {
		v := y[i]
		if which[i] {
			v = x[i]
		}
		dst[i] = v
	}
}
