package ops

import (
	"math"
	"sync"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
)

// Softmax returns exp(x) / Σ exp(x) along an axis
// (https://onnx.ai/onnx/operators/onnx__Softmax.html).
type Softmax struct{ kit.SoftmaxAxis }

var _ = kit.Register(&kit.Def{Name: "Softmax", Since: kit.Versions{1, 11, 13}, In: "input:T", Out: "output:T", Types: "T: @float",
	Build: func(a *kit.Attrs, opset int) kit.Operator { return &Softmax{kit.ReadSoftmaxAxis(a, opset)} },
	Gradient: kit.GradientRule(func(b *kit.GradientBuilder, n *kit.GradientNode, g string) ([]string, error) {
		y := n.Outputs[0]
		return []string{b.Op("Mul", y, b.Op("Sub", g, b.SumAlong(n, b.Op("Mul", g, y))))}, nil
	})})

// Run implements [ir.Operator].
func (o *Softmax) Run(c *ir.Call) error {
	s, err := o.Span(c.Tensor(0).Shape())
	if err != nil {
		return err
	}
	return kit.RunWide(c,
		func(dst, src []float32) error {
			if c.Generic {
				s.LaunchLines(c, func(base, m int) { kit.SoftmaxLines(c, dst, src, s, base, m) })
				return nil
			}
			return softmaxFloats(c, dst, src, s, SoftmaxRows(c), columnsF32.softmax)
		},
		func(dst, src []float64) error {
			if s.Inner == 1 && !c.Generic {
				kit.ReduceEach(c, s.Outer, s.N, func(row int) { softmaxDoubles(c, dst[row*s.N:][:s.N], src[row*s.N:][:s.N]) })
				return nil
			}
			if s.Inner >= kit.ShortRow/2 && !c.Generic {
				return s.EachLine(c, func(base, m int) { columnsF64.softmax(c, dst, src, s, base, m) })
			}
			return s.EachLine(c, func(base, m int) { kit.SoftmaxLines(c, dst, src, s, base, m) })
		})
}

// softmaxFloats launches rows for dense lines, columns for many adjacent lines, and rows on the transpose of few.
func softmaxFloats(c *ir.Call, dst, src []float32, s kit.AxisSpan, rows func(dst, src []float32, n int), columns func(c *ir.Call, dst, src []float32, s kit.AxisSpan, base, m int)) error {
	const few = 64
	switch size := s.N * s.Inner; {
	case s.Inner == 1:
		s.LaunchRows(c, dst, src, rows)
	case s.Inner >= few || size == 0:
		s.LaunchLines(c, func(base, m int) { columns(c, dst, src, s, base, m) })
	default:
		if err := c.Reserve(int64(kit.WorkspaceCount(s.Outer)) * int64(8*size)); err != nil {
			return err
		}
		c.Launch(s.Outer, kit.GrainFor(4*size), func(lo, hi int) {
			p := transposes.Get().(*[]float32)
			defer transposes.Put(p)
			if len(*p) < 2*size {
				*p = make([]float32, 2*size)
			}
			x, y, l := (*p)[:size], (*p)[size:2*size], cpu.Active()
			for o := lo; o < hi; o++ {
				vec.TransposeF32(l, x, s.N, src[o*size:], s.Inner, s.N, s.Inner)
				c.Check()
				rows(y, x, s.N)
				c.Check()
				vec.TransposeF32(l, dst[o*size:], s.Inner, y, s.N, s.Inner, s.N)
			}
		})
	}
	return nil
}

// transposes holds the transposes of blocks.
var transposes = sync.Pool{New: func() any { return new([]float32) }}

// softmaxDoubles is SoftmaxLines for one dense line.
func softmaxDoubles(c *ir.Call, dst, src []float64) {
	top, sum := math.Inf(-1), 0.0
	for lo, hi := range kit.Steps(c, len(src)) {
		top = max(top, vec.ReduceMaxF64(cpu.Active(), src[lo:hi]))
	}
	for lo, hi := range kit.Steps(c, len(src)) {
		y := dst[lo:hi]
		for i, x := range src[lo:hi] {
			y[i] = x - top
		}
		vec.ExpF64(cpu.Active(), y, y)
		sum += vec.SumF64(cpu.Active(), y)
	}
	for lo, hi := range kit.Steps(c, len(src)) {
		y := dst[lo:hi]
		for i := range y {
			y[i] /= sum
		}
	}
}

// SoftmaxRows returns a kernel for rows of n elements, where dst may be src. Within a long row, it
// checks the context.
func SoftmaxRows(c *ir.Call) func(dst, src []float32, n int) {
	return func(dst, src []float32, n int) {
		level := cpu.Active()
		if n <= 4*kit.GrainWatch {
			vec.SoftmaxRowsF32(level, dst, src, n)
			return
		}
		for at := 0; at < len(dst); at += n {
			y, x := dst[at:at+n], src[at:at+n]
			top, sum := vec.ReduceMaxF32(level, x), 0.0
			for lo, hi := range kit.Steps(c, n) {
				sum += float64(vec.ExpSubSumF32(level, y[lo:hi], x[lo:hi], top))
			}
			c.Check()
			vec.MulScalarF32(level, y, y, float32(1/sum))
		}
	}
}

// columnKernels are the vector kernels of softmax.
type columnKernels[T kit.FloatNumber] struct {
	max, sub, add, div func(l cpu.Level, dst, a, b []T)
	exp                func(l cpu.Level, dst, x []T)
	buffers            sync.Pool // of tops and sums
}

var (
	columnsF32 = columnKernels[float32]{max: vec.MaxF32, sub: vec.SubF32, add: vec.AddF32, div: vec.DivF32, exp: vec.ExpF32}
	columnsF64 = columnKernels[float64]{max: vec.MaxF64, sub: vec.SubF64, add: vec.AddF64, div: vec.DivF64, exp: vec.ExpF64}
)

// softmax is SoftmaxLines with vector kernels over adjacent lines.
func (k *columnKernels[T]) softmax(c *ir.Call, dst, src []T, s kit.AxisSpan, base, m int) {
	level := cpu.Active()
	b, ok := k.buffers.Get().(*[2][kit.ColumnBlock]T)
	if !ok {
		b = new([2][kit.ColumnBlock]T)
	}
	defer k.buffers.Put(b)
	top, sum := b[0][:m], b[1][:m]
	clear(sum)
	meter := kit.Meter{C: c}
	copy(top, src[base:base+m])
	for i := 1; i < s.N; i++ {
		meter.Check(m)
		at := base + i*s.Inner
		k.max(level, top, top, src[at:at+m])
	}
	for i := range s.N {
		meter.Check(m)
		at := base + i*s.Inner
		y := dst[at : at+m]
		k.sub(level, y, src[at:at+m], top)
		k.exp(level, y, y)
		k.add(level, sum, sum, y)
	}
	for i := range s.N {
		meter.Check(m)
		at := base + i*s.Inner
		k.div(level, dst[at:at+m], dst[at:at+m], sum)
	}
}
