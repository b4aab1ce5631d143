package ops

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
)

// IsInf tells which elements are infinite
// (https://onnx.ai/onnx/operators/onnx__IsInf.html).
type IsInf struct {
	boolOfInput
	Negative, Positive bool // which infinities count
	loops              loopTable
}

var _ = register(Def{Name: "IsInf", Since: []int{10, 20}, In: "X:T1", Out: "Y:T2", Types: Types{"T1": "@float @float8", "T2": "bool"},
	Build: simple(func(a *Attrs, opset int) Operator {
		o := &IsInf{Negative: a.Bool("detect_negative", true), Positive: a.Bool("detect_positive", true)}
		o.loops = loopsOf(append(float8Test(func(f float32) bool {
			return o.Positive && math.IsInf(float64(f), 1) || o.Negative && math.IsInf(float64(f), -1)
		}),
			loop1(func(dst []bool, src []float32) { isInfLoop(dst, src, o.Negative, o.Positive) }),
			loop1(func(dst []bool, src []float64) { isInfLoop(dst, src, o.Negative, o.Positive) }))...)
		return o
	})})

// Run implements [ir.Operator].
func (o *IsInf) Run(c *ir.Call) error { return mapTable(c, o.loops, grainCheap) }

func isInfLoop[T floatNumber](dst []bool, src []T, negative, positive bool) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = positive && math.IsInf(float64(x), 1) || negative && math.IsInf(float64(x), -1)
	}
}
