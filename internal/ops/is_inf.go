package ops

import (
	"math"
	"slices"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/memory"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// IsInf returns whether elements are infinite (https://onnx.ai/onnx/operators/onnx__IsInf.html).
type IsInf struct {
	boolOfInput
	Negative, Positive bool // infinities to detect
	loops              kit.LoopTable
}

var _ = kit.Register(&kit.Def{Name: "IsInf", Since: kit.Versions{10, 20}, In: "X:T1", Out: "Y:T2", Types: "T1: @float @float8; T2: bool",
	Elementwise: true, Build: func(a *kit.Attrs, opset int) kit.Operator {
		o := &IsInf{Negative: a.Bool("detect_negative", true), Positive: a.Bool("detect_positive", true)}
		o.loops = kit.LoopsOf(append(kit.Float8Test(func(f float32) bool {
			return o.Positive && math.IsInf(float64(f), 1) || o.Negative && math.IsInf(float64(f), -1)
		}),
			o.floats(),
			kit.Loop1(func(dst []bool, src []float64) { isInfLoop(dst, src, o.Negative, o.Positive) }))...)
		if o.Negative && o.Positive {
			o.loops.WithFast(tensor.TypeFloat16, func(dst []byte, in *[3][]byte) {
				vec.InfiniteF16(cpu.Active(), memory.FromRaw[bool](dst), memory.FromRaw[uint16](in[0]))
			})
		}
		return o
	},
	Gradient: kit.NoGradient})

// Run implements [ir.Operator].
func (o *IsInf) Run(c *ir.Call) error { return kit.MapTable(c, o.loops, kit.GrainCheap) }

func isInfLoop[T kit.FloatNumber](dst []bool, src []T, negative, positive bool) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = positive && math.IsInf(float64(x), 1) || negative && math.IsInf(float64(x), -1)
	}
}

// floats returns the loop over float32. The kernel compares with infinities, after the removal of
// the sign if it does not matter.
func (o *IsInf) floats() *kit.ElementLoop {
	l := kit.Loop1(func(dst []bool, src []float32) { isInfLoop(dst, src, o.Negative, o.Positive) })
	limit := math.Inf(1)
	if !o.Positive {
		limit = math.Inf(-1)
	}
	infinities := slices.Repeat([]float32{float32(limit)}, kit.LoopBlock)
	l.Fast = func(dst []byte, in *[3][]byte) {
		if !o.Negative && !o.Positive {
			clear(dst)
			return
		}
		var sizes [kit.LoopBlock]float32
		level, y, x := cpu.Active(), memory.FromRaw[bool](dst), memory.FromRaw[float32](in[0])
		for lo := 0; lo < len(y); lo += kit.LoopBlock {
			part := x[lo:min(len(y), lo+kit.LoopBlock)]
			if o.Negative && o.Positive {
				vec.AbsF32(level, sizes[:len(part)], part)
				part = sizes[:len(part)]
			}
			vec.EqualF32(level, y[lo:lo+len(part)], part, infinities[:len(part)])
		}
	}
	return l
}
