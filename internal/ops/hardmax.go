package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/reduce"
)

// Hardmax returns 1 for the first largest element along an axis and 0 for all others
// (https://onnx.ai/onnx/operators/onnx__Hardmax.html).
type Hardmax struct{ reduce.SoftmaxAxis }

var _ = kit.Register(&kit.Def{Name: "Hardmax", Since: kit.Versions{1, 11, 13}, In: "input:T", Out: "output:T",
	Types: "T: @float",
	Class: kit.ClassNormalization, Work: 2,
	Build: func(a *kit.Attrs, opset int) kit.Operator { return &Hardmax{reduce.ReadSoftmaxAxis(a, opset)} }})

// Run implements [ir.Operator].
func (o *Hardmax) Run(c *ir.Call) error {
	s, err := o.Span(c.Tensor(0).Shape())
	if err != nil {
		return err
	}
	return kit.RunWide(c,
		func(dst, src []float32) error {
			if s.N > 0 && !c.Generic {
				return softmaxF32.launch(c, dst, src, s, hardmaxRows, hardmaxLines[float32])
			}
			return s.EachLine(c, func(base, m int) { hardmaxLines(c, dst, src, s, base, m) })
		},
		func(dst, src []float64) error {
			return s.EachLine(c, func(base, m int) { hardmaxLines(c, dst, src, s, base, m) })
		})
}

// hardmaxRows computes rows of n elements.
func hardmaxRows(dst, src []float32, n int) {
	clear(dst)
	var at [64]int64
	for lo, rows := 0, len(dst)/n; lo < rows; lo += len(at) {
		m := min(len(at), rows-lo)
		argRowsFast(at[:m], src, n, lo, argMax, false)
		for i, k := range at[:m] {
			dst[(lo+i)*n+int(k)] = 1
		}
	}
}

func hardmaxLines[T kit.FloatNumber](c *ir.Call, dst, src []T, s kit.AxisSpan, base, m int) {
	var best [kit.ColumnBlock]int64
	if x, ok := any(src).([]float32); ok && !c.Generic && m >= kit.ShortRow {
		argLinesF32(c, best[:m], x, s, base, argMax, false)
	} else {
		argLines(c, best[:m], src, s, base, argMax, false)
	}
	meter := ir.Meter{C: c}
	for k := range s.N {
		meter.Check(m)
		at := base + k*s.Inner
		for j := range dst[at : at+m] {
			dst[at+j] = 0
			if best[j] == int64(k) {
				dst[at+j] = 1
			}
		}
	}
}
