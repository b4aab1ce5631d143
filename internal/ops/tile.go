package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/internal/ops/kit/move"
	"github.com/onward-ml/onward/internal/ops/kit/quant"
)

// Tile repeats a tensor along each dimension, as often as input repeats specifies
// (https://onnx.ai/onnx/operators/onnx__Tile.html).
type Tile struct {
	OneAxis bool // opset 1: inputs tiles and axis, both of the type of the data
}

var _ = kit.Register(&kit.Def{Name: "Tile", Since: kit.Versions{1, 6, 13},
	In: "input:T, repeats:any, axis:any?", Out: "output:T", Types: "T: @all",
	Selects: kit.Always, Build: func(a *kit.Attrs, opset int) kit.Operator {
		if opset >= 6 && a.NumIn > 2 {
			a.Errorf("node has %d inputs, want 2", a.NumIn)
		}
		return &Tile{OneAxis: opset < 6}
	},
	Gradient: gradient.Move})

// Infer implements ir.Operator.
func (op *Tile) Infer(c *ir.InferContext) error {
	in := c.Shape(0)
	if in == nil {
		kit.SetShape(c, 0, c.Elem(0), nil)
		return nil
	}
	out := ir.UnknownDims(len(in))
	kit.SetShape(c, 0, c.Elem(0), out)
	if op.OneAxis {
		return nil
	}
	if c.Elem(1) != kit.TensorInt64 {
		return fail.Errorf("repeats is %s, want int64", c.Elem(1))
	}
	if err := kit.CheckRank(c, 1, 1, "repeats"); err != nil {
		return err
	}
	if r := c.Contents(1); r != nil {
		if len(r) != len(in) {
			return fail.Errorf("repeats has %d elements, but the input has rank %d", len(r), len(in))
		}
		for i := range out {
			if n, ok := r[i].Value(); ok && n < 0 {
				return fail.Errorf("repeats has %d at position %d, want at least 0", n, i)
			}
			out[i] = in[i].Mul(r[i])
		}
	}
	return nil
}

// repeats returns the number of repetitions of each dimension.
func (op *Tile) repeats(c *ir.Call, rank int) ([]int, error) {
	if !op.OneAxis {
		r, err := kit.SmallInts(c.Tensor(1), "repeats")
		if err == nil && len(r) != rank {
			err = fail.Errorf("repeats has %d elements, but the input has rank %d", len(r), rank)
		}
		return r, err
	}
	var v [2]int
	for i, what := range []string{"tiles", "axis"} {
		t := c.Tensor(i + 1)
		if t == nil || t.Len() != 1 {
			return nil, fail.Errorf("input %s must have one element", what)
		}
		n, err := kit.AnyInts(t)
		if err != nil {
			return nil, fail.Errorf("%s: %w", what, err)
		}
		v[i] = n[0]
	}
	axis, err := kit.NormalAxis(v[1], rank)
	if err != nil {
		return nil, err
	}
	r := make([]int, rank)
	for i := range r {
		r[i] = 1
	}
	r[axis] = v[0]
	return r, nil
}

// Run implements ir.Operator.
func (op *Tile) Run(c *ir.Call) error {
	x := c.Tensor(0)
	rep, err := op.repeats(c, x.Rank())
	if err != nil {
		return err
	}
	shape := make([]int, len(rep))
	for i, r := range rep {
		d := x.Dim(i)
		if r < 0 || r > 0 && d > math.MaxInt/r {
			return fail.Errorf("repeats has %d at position %d, which is negative or overflows for a dimension of %d",
				r, i, d)
		}
		shape[i] = d * r
	}
	dst, err := move.Out(c, 0, x.DType(), shape...)
	if err != nil {
		return err
	}
	src, err := move.In(c, x)
	if err != nil {
		return err
	}
	tileShort(c, dst, src, x.Shape(), rep)
	dst.Done()
	return nil
}

// tileShort is tileInto. If the last dimension is short, it is repeated first. Then blocks of the
// result are copied to their repetitions, from the inner dimensions to the outer ones.
func tileShort(c *ir.Call, dst, src move.Buf, dims, rep []int) {
	shape := make([]int, len(dims))
	var d, r []int
	for i, n := range dims {
		if len(d) > 0 && rep[i] == 1 { // one dimension with the one before
			d[len(d)-1] *= n
			shape[len(d)-1] *= n
			continue
		}
		shape[len(d)] = n * rep[i]
		d, r = append(d, n), append(r, rep[i])
	}
	dims, rep, shape = d, r, shape[:len(d)]
	const short = 1 << 10 // bytes
	last := len(rep) - 1
	if dst.Width == 0 || last < 1 || dims[last]*dst.Width > short || kit.Product(rep[:last]) == 1 &&
		dims[last]*dst.Width <= move.NarrowRow || kit.Product(shape) == 0 {
		tileInto(c, dst, src, dims, rep, shape)
		return
	}
	out := kit.Strides(shape)
	start := func(i, k int) int { // of block k of dimensions i and later
		at := 0
		for d := i - 1; d >= 0; d-- {
			at += k % dims[d] * out[d]
			k /= dims[d]
		}
		return at * dst.Width
	}
	outer := last - 1 // the innermost dimension whose blocks are not copied yet
	if n := dims[last] * dst.Width; n > move.NarrowRow {
		rows, step, part := dims[last-1], rep[last]*n, 1
		if kit.Product(dims[:outer]) >= 8 { // each plane is copied while it is in the first-level cache
			part, outer = rows, outer-1
		}
		c.Parallel(kit.Product(dims[:last])/part, 1+kit.GrainCheap/(step*part), func(lo, hi int) {
			for lo, hi := lo*part, hi*part; lo < hi; {
				plane := dst.Raw[start(last-1, lo/rows):]
				to, end := plane[lo%rows*step:], min(hi, lo+rows-lo%rows) // of a part of a plane
				for ; lo < end; lo++ {
					for range rep[last] {
						to = to[copy(to, src.Raw[lo*n:][:n]):]
					}
				}
				if part == rows {
					quant.Repeat(plane[:rep[last-1]*rows*step], rows*step)
				}
			}
		})
	} else {
		first := make([]int, len(rep))
		for i := range last {
			first[i] = 1
		}
		first[last] = rep[last]
		tileInto(c, dst, src, dims, first, shape)
	}
	for i := outer; i >= 0; i-- {
		block := dims[i] * out[i] * dst.Width
		c.Parallel(kit.Product(dims[:i]), max(1, kit.GrainCheap/(rep[i]*block)), func(lo, hi int) {
			for k := lo; k < hi; k++ {
				quant.Repeat(dst.Raw[start(i, k):][:rep[i]*block], block)
			}
		})
	}
}

// tileInto writes a repeated tensor. Every dimension becomes two, of which the outer one repeats.
// Repetitions of short rows come before all dimensions, so that many rows are copied at a time.
func tileInto(c *ir.Call, dst, src move.Buf, dims, rep, shape []int) {
	in, out := kit.Strides(dims), kit.Strides(shape)
	var box, to, from []int
	for i, r := range rep {
		box = append(box, r, dims[i])
		to = append(to, out[i]*dims[i], out[i])
		from = append(from, 0, in[i])
	}
	if n := len(rep) - 1; n >= 0 && dims[n]*dst.Width <= move.NarrowRow {
		for _, s := range [][]int{box, to, from} {
			apart := make([]int, 0, len(s))
			for first := range 2 {
				for i := first; i < len(s); i += 2 {
					apart = append(apart, s[i])
				}
			}
			copy(s, apart)
		}
	}
	move.Strided(c, dst, src, box, to, 0, from, 0)
}
