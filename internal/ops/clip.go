package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// Clip limits elements to [min, max]. If min exceeds max, the result is max
// (https://onnx.ai/onnx/operators/onnx__Clip.html). The bounds are inputs since opset 11 and float
// attributes before.
type Clip struct {
	Min, Max float64 // bounds that are attributes
}

var _ = kit.Register(&kit.Def{Name: "Clip", Since: kit.Versions{1, 6, 11, 12, 13}, In: "input:T, min:T?, max:T?", Out: "output:T",
	Types:       "T: @number",
	Elementwise: true, Vector: clipVector, Build: func(a *kit.Attrs, opset int) kit.Operator {
		o := &Clip{Min: math.Inf(-1), Max: math.Inf(1)}
		kit.IgnoreConsumed(a, opset)
		if opset < 11 {
			if a.Has("min") || opset >= 6 {
				o.Min = float64(a.Float("min", -math.MaxFloat32))
			}
			if a.Has("max") || opset >= 6 {
				o.Max = float64(a.Float("max", math.MaxFloat32))
			}
		}
		return o
	},
	Gradient: kit.GradientRule(func(b *kit.GradientBuilder, n *kit.GradientNode, g string) ([]string, error) {
		if err := b.Need(11); err != nil {
			return nil, err
		}
		x := n.Inputs[0]
		return n.First(b.Op("Where", b.Op("Equal", x, n.Outputs[0]), g, b.Filled(0, x))), nil
	})})

// Bounds returns the bounds of a Clip of float; in holds its constant inputs, nil for
// others. It reports whether they are known and not crossed.
func (o *Clip) Bounds(in []*tensor.Tensor) (lo, hi float32, ok bool) {
	lo, hi = float32(o.Min), float32(o.Max)
	for i, b := range []*float32{&lo, &hi} {
		if len(in) <= i+1 || in[i+1] == nil {
			continue
		}
		if in[i+1].DType() != tensor.TypeFloat32 || in[i+1].Len() != 1 {
			return lo, hi, false
		}
		*b = tensor.Of[float32](in[i+1])[0]
	}
	return lo, hi, lo <= hi
}

func clipVector(op kit.Operator, in []*tensor.Tensor) kit.VecUnary {
	o, ok := op.(*Clip)
	if !ok {
		return nil
	}
	lo, hi, ok := o.Bounds(in)
	if !ok {
		return nil
	}
	return func(l cpu.Level, dst, x []float32) { vec.ClipF32(l, dst, x, lo, hi) }
}

// Infer implements [ir.Operator].
func (*Clip) Infer(c *ir.InferContext) error { return kit.SameAsInput(c) }

// Run implements [ir.Operator].
func (o *Clip) Run(c *ir.Call) error {
	for i, name := range []string{"", "min", "max"} {
		if t := c.Tensor(i); i > 0 && t != nil && t.Len() != 1 {
			return fail.Errorf("%s has shape %v, want a scalar", name, t.Shape())
		}
	}
	switch d := c.Tensor(0).DType(); d {
	case tensor.TypeInt8:
		return clipFast(c, math.MinInt8, math.MaxInt8, vec.MaxI8, vec.MinI8)
	case tensor.TypeInt16:
		return clipOf[int16](c, math.MinInt16, math.MaxInt16)
	case tensor.TypeInt32:
		return clipFast(c, math.MinInt32, math.MaxInt32, vec.MaxI32, vec.MinI32)
	case tensor.TypeInt64:
		return clipFast(c, math.MinInt64, math.MaxInt64, vec.MaxI64, vec.MinI64)
	case tensor.TypeUint8:
		return clipFast(c, 0, math.MaxUint8, vec.MaxU8, vec.MinU8)
	case tensor.TypeUint16:
		return clipOf[uint16](c, 0, math.MaxUint16)
	case tensor.TypeUint32:
		return clipFast(c, 0, math.MaxUint32, vec.MaxU32, vec.MinU32)
	case tensor.TypeUint64:
		return clipFast[uint64](c, 0, math.MaxUint64, vec.MaxU64, vec.MinU64)
	case tensor.TypeFloat32:
		lo, hi := clipBounds(c, float32(o.Min), float32(o.Max))
		return kit.MapLoop(c, *clipFloats(lo, hi), kit.GrainVector)
	case tensor.TypeFloat64:
		return clipFast(c, o.Min, o.Max, vec.MaxF64, vec.MinF64)
	case tensor.TypeFloat16, tensor.TypeBFloat16:
		lo, hi := float32(o.Min), float32(o.Max)
		for i, p := range []*float32{&lo, &hi} {
			if t := c.Tensor(1 + i); t != nil {
				var v [1]float32
				kit.WidenHalf(v[:], t.Bytes(), d)
				*p = v[0]
			}
		}
		return kit.MapLoop(c, kit.WidenedLoop(*clipFloats(lo, hi), d), kit.GrainVector)
	default:
		return fail.Errorf("elements of type %s are not supported", d)
	}
}

func clipOf[T kit.RealNumber](c *ir.Call, lo, hi T) error {
	lo, hi = clipBounds(c, lo, hi)
	return kit.MapLoop(c, *kit.Loop1(func(dst, src []T) { clipLoop(dst, src, lo, hi) }), kit.GrainCheap)
}

// clipFast limits blocks of elements with the kernels of reductions.
func clipFast[T kit.RealNumber](c *ir.Call, lo, hi T, raise, lower func(l cpu.Level, dst, a, b []T)) error {
	lo, hi = clipBounds(c, lo, hi)
	loop := kit.Loop1(func(dst, src []T) { clipLoop(dst, src, lo, hi) })
	if l := cpu.Active(); loop.In.Size() == 1 && l != cpu.AVX2 && l != cpu.AVX512 { // a table is faster than the loops
		var all, clipped [256]byte
		for i := range all {
			all[i] = byte(i)
		}
		loop.Run(clipped[:], &[3][]byte{all[:]})
		loop.Run = func(dst []byte, in *[3][]byte) { kit.MapBytes(dst, in[0][:len(dst)], &clipped) }
		return kit.MapLoop(c, *loop, kit.GrainCheap)
	}
	var least, most [kit.LoopBlock]T
	kit.RepeatOf(least[:], lo)
	kit.RepeatOf(most[:], hi)
	loop.Fast = func(dst []byte, in *[3][]byte) {
		y, x, l := memory.FromRaw[T](dst), memory.FromRaw[T](in[0]), cpu.Active()
		for len(y) > 0 {
			n := min(len(y), kit.LoopBlock)
			raise(l, y[:n], x, least[:])
			lower(l, y[:n], y, most[:])
			y, x = y[n:], x[n:]
		}
	}
	return kit.MapLoop(c, *loop, kit.GrainCheap)
}

// clipBounds returns the bounds from the inputs, or lo and hi if they are absent.
func clipBounds[T kit.RealNumber](c *ir.Call, lo, hi T) (T, T) {
	if t := c.Tensor(1); t != nil {
		lo = tensor.Of[T](t)[0]
	}
	if t := c.Tensor(2); t != nil {
		hi = tensor.Of[T](t)[0]
	}
	return lo, hi
}

func clipFloats(lo, hi float32) *kit.ElementLoop {
	l := kit.Loop1(func(dst, src []float32) { clipLoop(dst, src, lo, hi) })
	if lo != lo || hi != hi {
		return l
	}
	return kit.WithUnary(l, func(level cpu.Level, dst, x []float32) { vec.ClipF32(level, dst, x, lo, hi) })
}

func clipLoop[T kit.RealNumber](dst, src []T, lo, hi T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = min(max(x, lo), hi)
	}
}
