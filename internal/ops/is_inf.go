package ops

import (
	"math"
	"slices"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/tensor"
)

// IsInf returns whether elements are infinite (https://onnx.ai/onnx/operators/onnx__IsInf.html).
type IsInf struct {
	boolOfInput
	Negative, Positive bool // infinities to detect
	loops              elementwise.Table
}

var _ = kit.Register(&kit.Def{Name: "IsInf", Since: kit.Versions{10, 20}, In: "X:T1", Out: "Y:T2",
	Types:       "T1: @float @float8; T2: bool",
	Elementwise: true, Build: func(a *kit.Attrs, opset int) kit.Operator {
		o := &IsInf{Negative: a.Bool("detect_negative", true), Positive: a.Bool("detect_positive", true)}
		o.loops = elementwise.LoopsOf(append(float8Test(func(f float32) bool {
			return o.Positive && math.IsInf(float64(f), 1) || o.Negative && math.IsInf(float64(f), -1)
		}),
			isInf(o, vec.AbsF32, vec.EqualF32), isInf(o, vec.AbsF64, vec.EqualF64))...)
		if o.Negative && o.Positive {
			o.loops.WithFast(tensor.TypeFloat16, func(dst []byte, in *[3][]byte) {
				vec.InfiniteF16(cpu.Active(), memory.FromRaw[bool](dst), memory.FromRaw[uint16](in[0]))
			})
		}
		return o
	},
	Gradient: gradient.None})

// Run implements [ir.Operator].
func (o *IsInf) Run(c *ir.Call) error { return elementwise.MapTable(c, o.loops, kit.GrainCheap) }

func isInfLoop[T kit.FloatNumber](dst []bool, src []T, negative, positive bool) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = positive && math.IsInf(float64(x), 1) || negative && math.IsInf(float64(x), -1)
	}
}

// isInf returns the loop over floats. The kernel compares with infinities, after the removal of the
// sign if it does not matter.
func isInf[T kit.RealFloat](o *IsInf, abs func(l cpu.Level, dst, x []T),
	equal func(l cpu.Level, dst []bool, a, b []T)) *elementwise.Loop {
	l := elementwise.Loop1(func(dst []bool, src []T) { isInfLoop(dst, src, o.Negative, o.Positive) })
	limit := math.Inf(1)
	if !o.Positive {
		limit = math.Inf(-1)
	}
	infinities := slices.Repeat([]T{T(limit)}, kit.LoopBlock)
	l.Fast = func(dst []byte, in *[3][]byte) {
		if !o.Negative && !o.Positive {
			clear(dst)
			return
		}
		var sizes [kit.LoopBlock]T
		level, y, x := cpu.Active(), memory.FromRaw[bool](dst), memory.FromRaw[T](in[0])
		for lo := 0; lo < len(y); lo += kit.LoopBlock {
			part := x[lo:min(len(y), lo+kit.LoopBlock)]
			if o.Negative && o.Positive {
				abs(level, sizes[:len(part)], part)
				part = sizes[:len(part)]
			}
			equal(level, y[lo:lo+len(part)], part, infinities[:len(part)])
		}
	}
	return l
}
