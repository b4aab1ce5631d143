package ops

import "github.com/onward-ml/onward/internal/ir"

// Hardmax makes the first greatest element along an axis 1 and all others 0
// (https://onnx.ai/onnx/operators/onnx__Hardmax.html).
type Hardmax struct{ softmaxAxis }

var _ = register(Def{Name: "Hardmax", Since: []int{1, 11, 13}, In: "input:T", Out: "output:T", Types: Types{"T": "@float"},
	Build: simple(func(a *Attrs, opset int) Operator { return &Hardmax{readSoftmaxAxis(a, opset)} })})

// Run implements [ir.Operator].
func (o *Hardmax) Run(c *ir.Call) error {
	s, err := o.span(c.Tensor(0).Shape())
	if err != nil {
		return err
	}
	return runWide(c,
		func(dst, src []float32) error {
			if s.inner == 1 && s.n > 0 && !c.Generic {
				return reduceSpans(c, s.outer, s.n, func(lo, hi int) {
					clear(dst[lo*s.n : hi*s.n])
					var at [64]int64
					for ; lo < hi; lo += len(at) {
						m := min(len(at), hi-lo)
						argRowsFast(at[:m], src, s.n, lo, argMax, false)
						for i, k := range at[:m] {
							dst[(lo+i)*s.n+int(k)] = 1
						}
					}
				})
			}
			return s.eachLine(c, func(base, m int) { hardmaxLines(dst, src, s, base, m) })
		},
		func(dst, src []float64) error {
			return s.eachLine(c, func(base, m int) { hardmaxLines(dst, src, s, base, m) })
		})
}

func hardmaxLines[T floatNumber](dst, src []T, s axisSpan, base, m int) {
	var best [columnBlock]int
	argLines(best[:m], src, s, base, argMax, false)
	for k := range s.n {
		at := base + k*s.inner
		for j := range dst[at : at+m] {
			dst[at+j] = 0
			if best[j] == k {
				dst[at+j] = 1
			}
		}
	}
}
