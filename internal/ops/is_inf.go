package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
)

// IsInf returns whether elements are infinite (https://onnx.ai/onnx/operators/onnx__IsInf.html).
type IsInf struct {
	boolOfInput
	Negative, Positive bool // infinities to detect
	loops              kit.LoopTable
}

var _ = kit.Register(kit.Def{Name: "IsInf", Since: []int{10, 20}, In: "X:T1", Out: "Y:T2", Types: kit.Types{"T1": "@float @float8", "T2": "bool"},
	Elementwise: true, Build: kit.Simple(func(a *kit.Attrs, opset int) kit.Operator {
		o := &IsInf{Negative: a.Bool("detect_negative", true), Positive: a.Bool("detect_positive", true)}
		o.loops = kit.LoopsOf(append(kit.Float8Test(func(f float32) bool {
			return o.Positive && math.IsInf(float64(f), 1) || o.Negative && math.IsInf(float64(f), -1)
		}),
			kit.Loop1(func(dst []bool, src []float32) { isInfFloats(dst, src, o.Negative, o.Positive) }),
			kit.Loop1(func(dst []bool, src []float64) { isInfLoop(dst, src, o.Negative, o.Positive) }))...)
		return o
	}),
	Gradient: kit.NoGradient})

// Run implements [ir.Operator].
func (o *IsInf) Run(c *ir.Call) error { return kit.MapTable(c, o.loops, kit.GrainCheap) }

func isInfLoop[T kit.FloatNumber](dst []bool, src []T, negative, positive bool) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = positive && math.IsInf(float64(x), 1) || negative && math.IsInf(float64(x), -1)
	}
}

// isInfFloats is isInfLoop without branches that depend on elements.
func isInfFloats(dst []bool, src []float32, negative, positive bool) {
	const infinity = 0x7f800000
	ignored, pattern := uint32(1<<31), uint32(infinity) // either sign
	switch {
	case negative && positive:
	case negative:
		ignored, pattern = 0, 1<<31|infinity
	case positive:
		ignored = 0
	default:
		clear(dst)
		return
	}
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = math.Float32bits(x)&^ignored == pattern
	}
}
