package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/tensor"
)

// Clip limits elements to [min, max]. If min exceeds max, the result is max
// (https://onnx.ai/onnx/operators/onnx__Clip.html). The bounds are inputs since opset 11 and float
// attributes before.
type Clip struct {
	Min, Max float64 // bounds that are attributes
}

var _ = kit.Register(&kit.Def{Name: "Clip", Since: kit.Versions{1, 6, 11, 12, 13}, In: "input:T, min:T?, max:T?",
	Out:         "output:T",
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
	Gradient: gradient.Rule(func(b *gradient.Builder, n *gradient.Node, g string) ([]string, error) {
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
		*b = tensor.MustData[float32](in[i+1])[0]
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
	case tensor.TypeFloat32:
		lo, hi := float32(o.Min), float32(o.Max)
		for i, p := range []*float32{&lo, &hi} {
			if t := c.Tensor(1 + i); t != nil {
				*p = tensor.MustData[float32](t)[0]
			}
		}
		return elementwise.MapLoop(c, *clipFloats(lo, hi), kit.GrainVector)
	case tensor.TypeFloat16, tensor.TypeBFloat16:
		lo, hi := float32(o.Min), float32(o.Max)
		for i, p := range []*float32{&lo, &hi} {
			if t := c.Tensor(1 + i); t != nil {
				var v [1]float32
				kit.WidenHalf(v[:], t.Bytes(), d)
				*p = v[0]
			}
		}
		return elementwise.MapLoop(c, elementwise.WidenedLoop(*clipFloats(lo, hi), d), kit.GrainVector)
	default:
		return o.between(c, d)
	}
}

// between limits blocks of elements with the loops of Max and Min.
func (o *Clip) between(c *ir.Call, d tensor.DType) error {
	type step struct {
		loop  elementwise.Loop
		bound []byte // a block of it
	}
	const block = 2048 // bytes
	var steps []step
	for i, t := range []elementwise.Table{maxLoops, minLoops} {
		l, err := t.Loop(d)
		if err != nil {
			return err
		}
		var bound []byte
		if b := c.Tensor(1 + i); b != nil {
			bound = b.Bytes()
		} else if d == tensor.TypeFloat64 {
			bound = memory.AsBytes([]float64{[]float64{o.Min, o.Max}[i]})
		} else {
			continue
		}
		s := step{l, memory.AsBytes(make([]uint64, block/8))}
		for n := copy(s.bound, bound); n < block; n *= 2 {
			copy(s.bound[n:], s.bound[:n])
		}
		steps = append(steps, s)
	}
	each := func(run func(s *step, dst []byte, in *[3][]byte)) func(dst []byte, in *[3][]byte) {
		return func(dst []byte, in *[3][]byte) {
			if len(steps) == 0 {
				copy(dst, in[0])
			}
			src, operands := in[0], new([3][]byte)
			for len(dst) > 0 && len(steps) > 0 {
				n := min(len(dst), block)
				operands[0] = src[:n]
				for i := range steps {
					operands[1] = steps[i].bound[:n]
					run(&steps[i], dst[:n], operands)
					operands[0] = dst[:n]
				}
				dst, src = dst[n:], src[n:]
			}
		}
	}
	loop := elementwise.Loop{In: d, Out: d, Arity: 1,
		Run: each(func(s *step, dst []byte, in *[3][]byte) { s.loop.Run(dst, in) })}
	switch l := cpu.Active(); {
	case d.Size() == 1 && (cpu.VBMI(l) || l != cpu.AVX2 && l != cpu.AVX512):
		elementwise.WithTable(&loop)
	case len(steps) > 0 && steps[0].loop.Fast != nil:
		loop.Fast = each(func(s *step, dst []byte, in *[3][]byte) { s.loop.Fast(dst, in) })
	}
	return elementwise.MapLoop(c, loop, kit.GrainCheap)
}

func clipFloats(lo, hi float32) *elementwise.Loop {
	l := elementwise.Loop1(func(dst, src []float32) { clipLoop(dst, src, lo, hi) })
	if lo != lo || hi != hi {
		return l
	}
	return elementwise.WithUnary(l, func(level cpu.Level, dst, x []float32) { vec.ClipF32(level, dst, x, lo, hi) })
}

func clipLoop[T kit.RealNumber](dst, src []T, lo, hi T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = min(max(x, lo), hi)
	}
}
