package ops

import (
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/move"
	"github.com/onward-ml/onward/internal/ops/kit/window"
	"github.com/onward-ml/onward/tensor"
)

// MaxUnpool moves the maxima of a MaxPool to their original indices; the other elements are 0. The
// indices refer to the flattened input of a pooling that covers its input exactly. A larger
// output_shape adds zeros at the end of each axis
// (https://onnx.ai/onnx/operators/onnx__MaxUnpool.html).
type MaxUnpool struct{ window.Window }

var _ = kit.Register(&kit.Def{Name: "MaxUnpool", Since: kit.Versions{9, 11, 22}, In: "X:T1, I:T2, output_shape:T2?",
	Out:   "output:T1",
	Class: kit.ClassShape,
	Types: "T1: @float; T2: int64",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		a.Require("kernel_shape")
		return &MaxUnpool{window.Window{AutoPad: "NOTSET", Kernel: window.Attr(a, "kernel_shape", 1),
			Strides: window.Attr(a, "strides", 1), Pads: window.Attr(a, "pads", 0)}}
	}})

// size returns the size of spatial axis i of n whose pooled size is in.
func (u *MaxUnpool) size(i, n int, in ir.Dim) ir.Dim {
	before, after := u.PadsOf(i, n)
	s := u.Stride(i)
	return in.Mul(ir.Known(s)).Add(ir.Known(u.Kernel[i] - s - before - after))
}

// Infer inverts the sizes of the pooling, or uses output_shape.
func (u *MaxUnpool) Infer(c *ir.InferContext) error {
	t := ir.UnrankedTensor(c.Elem(0))
	defer func() { c.SetOut(0, t) }()
	x := c.Shape(0)
	if x != nil {
		if err := u.checkRank(len(x)); err != nil {
			return err
		}
	}
	if c.Has(2) {
		if d := c.Contents(2); d != nil {
			t.Shape = append([]ir.Dim{}, d...)
		} else if x != nil {
			t.Shape = ir.UnknownDims(len(x))
		}
		return nil
	}
	if x != nil {
		t.Shape = append([]ir.Dim{}, x...)
		for i := range x[2:] {
			t.Shape[2+i] = u.size(i, len(x)-2, x[2+i])
		}
	}
	return nil
}

func (u *MaxUnpool) checkRank(rank int) error {
	if rank < 3 || len(u.Kernel) != rank-2 {
		return fail.Errorf("input has rank %d, want %d for a kernel_shape of %d elements", rank,
			len(u.Kernel)+2, len(u.Kernel))
	}
	return u.Check(rank - 2)
}

// Run moves elements by their width.
func (u *MaxUnpool) Run(c *ir.Call) error {
	x, index := c.Tensor(0), c.Tensor(1)
	shape := x.Shape()
	if err := u.checkRank(len(shape)); err != nil {
		return err
	}
	if len(shape) != index.Rank() || kit.Product(shape) != index.Len() {
		return fail.Errorf("input has shape %v and I %v, want the same", shape, index.Shape())
	}
	whole := append([]int{}, shape...)
	for i := range shape[2:] {
		n, ok := u.size(i, len(shape)-2, ir.Known(shape[2+i])).Value()
		if !ok || n < 0 {
			return fail.Errorf("spatial axis %d of %d elements does not result from this pooling", i, shape[2+i])
		}
		whole[2+i] = n
	}
	out := whole
	if t := c.Tensor(2); t != nil {
		if out = kit.Ints(t); len(out) != len(shape) {
			return fail.Errorf("output_shape has %d elements, want %d", len(out), len(shape))
		}
		for i, n := range out {
			if n < whole[i] {
				return fail.Errorf("output_shape %v is smaller than %v, the shape before the pooling", out, whole)
			}
		}
	}
	src, err := move.In(c, x)
	if err != nil {
		return err
	}
	dst, err := move.Out(c, 0, x.DType(), out...)
	if err != nil {
		return err
	}
	move.Clear(c, dst)
	at := tensor.MustData[int64](index)
	switch dst.Width {
	case 4:
		err = unpool(c, move.Of[uint32](dst), move.Of[uint32](src), at, whole, out)
	case 8:
		err = unpool(c, move.Of[uint64](dst), move.Of[uint64](src), at, whole, out)
	default:
		err = unpool(c, move.Of[uint16](dst), move.Of[uint16](src), at, whole, out)
	}
	if err != nil {
		return err
	}
	dst.Done()
	return c.Err()
}

// unpool moves src[k] to the element of dst, of shape out, whose index in shape whole is at[k].
func unpool[E move.Elem](c *ir.Call, dst, src []E, at []int64, whole, out []int) error {
	st, total, same := kit.Strides(out), kit.Product(whole), slices.Equal(whole, out)
	src = src[:len(at)]
	var err error
	c.Serial(len(at), kit.GrainCheap, func(lo, hi int) {
		if err != nil {
			return
		}
		part, at := src[lo:hi], at[lo:hi]
		k := 0
		for to := dst[:total]; same && k < len(at) && uint64(at[k]) < uint64(len(to)); k++ {
			to[at[k]] = part[k]
		}
		for ; k < len(at); k++ {
			i, to := int(at[k]), 0
			if uint64(i) >= uint64(total) {
				err = fail.Errorf("index %d is out of range [0, %d)", at[k], total)
				return
			}
			for d := len(whole) - 1; d >= 0; d-- {
				to += i % whole[d] * st[d]
				i /= whole[d]
			}
			dst[to] = part[k]
		}
	})
	return err
}
