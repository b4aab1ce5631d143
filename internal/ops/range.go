package ops

import (
	"math"
	"math/bits"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// Range returns start, start+delta, start+2·delta, … up to but excluding limit. Half-precision
// types are computed in float32, or in float64 if StashType is double. The default delta, which the
// contrib form allows, is 1 (https://onnx.ai/onnx/operators/onnx__Range.html).
type Range struct{ StashType tensor.DType }

var _ = kit.Register(&kit.Def{Name: "Range", Since: kit.Versions{11, 27}, In: "start:T, limit:T, delta:T",
	Out:   "output:T",
	Class: kit.ClassShape,
	Types: "T: @float int16 int32 int64",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		o := &Range{StashType: tensor.TypeFloat32}
		if opset >= 27 {
			o.StashType = a.DType("stash_type", tensor.TypeFloat32)
			if o.StashType != tensor.TypeFloat32 && o.StashType != tensor.TypeFloat64 {
				a.Errorf("attribute stash_type is %s, want float or double", o.StashType)
			}
		}
		return o
	}})

// Infer implements [ir.Operator].
func (*Range) Infer(c *ir.InferContext) error {
	n := ir.Unknown
	elem := c.Elem(0)
	a, b, d := rangeBound(c, 0), rangeBound(c, 1), rangeBound(c, 2)
	if !c.Has(2) && (elem == tensor.TypeInt64 || elem == tensor.TypeInt32) {
		d = ir.Known(1)
	}
	start, ok1 := a.Value()
	limit, ok2 := b.Value()
	step, ok3 := d.Value()
	if ok1 && ok2 && ok3 {
		count, err := rangeInts(int64(start), int64(limit), int64(step))
		if err != nil {
			return err
		}
		n = ir.Known(count)
		if elem == tensor.TypeInt64 && count <= tensor.MaxRank {
			r := make([]ir.Dim, count)
			for i := range r {
				r[i] = ir.Known(start + i*step)
			}
			c.SetContents(0, r)
		}
	} else if d.Is(1) && a.Is(0) && kit.IsDimension(b) {
		n = b
	}
	c.SetOut(0, ir.TensorType(elem, n))
	return nil
}

// rangeBound returns an int64 or int32 scalar input, as far as it is known.
func rangeBound(c *ir.InferContext, i int) ir.Dim {
	if e := c.Elem(i); e != tensor.TypeInt64 && e != tensor.TypeInt32 {
		return ir.Unknown
	}
	if d := c.Contents(i); len(d) == 1 {
		return d[0]
	}
	return ir.Unknown
}

// rangeInts returns ⌈(limit−start)/delta⌉, at least 0.
func rangeInts(start, limit, delta int64) (int, error) {
	if delta == 0 {
		return 0, fail.Errorf("delta must not be 0")
	}
	if delta > 0 && limit <= start || delta < 0 && limit >= start {
		return 0, nil
	}
	// Differences of int64 numbers fit in uint64.
	dist, step := uint64(limit)-uint64(start), uint64(delta)
	if delta < 0 {
		dist, step = uint64(start)-uint64(limit), -uint64(delta)
	}
	q, r := bits.Div64(0, dist, step)
	if r != 0 {
		q++
	}
	if q > math.MaxInt {
		return 0, fail.Errorf("range from %d to %d by %d has more than %d elements", start, limit, delta, math.MaxInt)
	}
	return int(q), nil
}

// rangeFloats is rangeInts for floats.
func rangeFloats(start, limit, delta float64) (int, error) {
	n := math.Ceil((limit - start) / delta)
	switch {
	case delta == 0:
		return 0, fail.Errorf("delta must not be 0")
	case n <= 0:
		return 0, nil
	case !(n < math.MaxInt64):
		return 0, fail.Errorf("range from %g to %g by %g has more than %d elements", start, limit, delta, math.MaxInt)
	}
	return int(n), nil
}

// Run implements [ir.Operator].
func (o *Range) Run(c *ir.Call) error {
	for i, name := range []string{"start", "limit", "delta"} {
		if t := c.Tensor(i); t != nil && t.Len() != 1 {
			return fail.Errorf("%s has shape %v, want a scalar", name, t.Shape())
		}
	}
	switch d := c.Tensor(0).DType(); d {
	case tensor.TypeInt16:
		return rangeOfInts[int16](c)
	case tensor.TypeInt32:
		return rangeOfInts[int32](c)
	case tensor.TypeInt64:
		return rangeOfInts[int64](c)
	case tensor.TypeFloat32:
		return rangeOfFloats[float32](c, d)
	case tensor.TypeFloat64:
		return rangeOfFloats[float64](c, d)
	default:
		if o.StashType == tensor.TypeFloat64 {
			return rangeOfFloats[float64](c, d)
		}
		return rangeOfFloats[float32](c, d)
	}
}

func rangeOfInts[T int16 | int32 | int64](c *ir.Call) error {
	start, limit, delta := tensor.MustData[T](c.Tensor(0))[0], tensor.MustData[T](c.Tensor(1))[0], T(1)
	if c.Has(2) {
		delta = tensor.MustData[T](c.Tensor(2))[0]
	}
	n, err := rangeInts(int64(start), int64(limit), int64(delta))
	if err != nil {
		return err
	}
	out, err := c.Output(0, tensor.DTypeOf[T](), n)
	if err != nil {
		return err
	}
	dst := tensor.MustData[T](out)
	c.Parallel(n, kit.GrainCheap, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			dst[i] = start + T(i)*delta
		}
	})
	return nil
}

// rangeOfFloats computes in T and stores in d.
func rangeOfFloats[T kit.FloatNumber](c *ir.Call, d tensor.DType) error {
	p := [3]T{2: 1}
	for i := range c.NumIn() {
		x, err := kit.ToScratch(c, c.Tensor(i), tensor.DTypeOf[T]())
		if err != nil {
			return err
		}
		p[i] = tensor.MustData[T](x)[0]
	}
	n, err := rangeFloats(float64(p[0]), float64(p[1]), float64(p[2]))
	if err != nil {
		return err
	}
	out, err := c.Output(0, d, n)
	if err != nil {
		return err
	}
	res := out
	if d != tensor.DTypeOf[T]() {
		if res, err = kit.ScratchTensor(c, tensor.DTypeOf[T](), out.Shape()); err != nil {
			return err
		}
	}
	dst := tensor.MustData[T](res)
	c.Parallel(n, kit.GrainCheap, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			dst[i] = p[0] + T(i)*p[2]
		}
	})
	if res == out {
		return nil
	}
	return kit.ConvertInto(c, out, res, tensor.ConvertOptions{})
}
