package ops

import (
	"math"
	"sync"
	"unsafe"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
)

// softmaxKernels computes Softmax, or LogSoftmax if log is set, with vector kernels.
type softmaxKernels[T kit.FloatNumber] struct {
	max, sub, add, div func(l cpu.Level, dst, a, b []T)
	exp, log           func(l cpu.Level, dst, x []T)
	transpose          func(l cpu.Level, dst []T, ldd int, src []T, lds, rows, cols int)
	buffers            sync.Pool // of softmaxBuffer[T]
	transposes         sync.Pool // of []T, the transposes of blocks
}

// softmaxBuffer holds numbers of up to kit.ColumnBlock lines, and exponentials.
type softmaxBuffer[T kit.FloatNumber] struct{ top, sum, exp [kit.ColumnBlock]T }

var (
	softmaxF32 = softmaxKernels[float32]{max: vec.MaxF32, sub: vec.SubF32, add: vec.AddF32, div: vec.DivF32,
		exp: vec.ExpF32, transpose: vec.TransposeF32}
	logSoftmaxF32 = softmaxKernels[float32]{max: vec.MaxF32, sub: vec.SubF32, add: vec.AddF32, log: vec.LogF32,
		exp: vec.ExpF32, transpose: vec.TransposeF32}
	softmaxF64 = softmaxKernels[float64]{max: vec.MaxF64, sub: vec.SubF64, add: vec.AddF64, div: vec.DivF64,
		exp: vec.ExpF64, transpose: vec.TransposeF64}
	logSoftmaxF64 = softmaxKernels[float64]{max: vec.MaxF64, sub: vec.SubF64, add: vec.AddF64, log: vec.LogF64,
		exp: vec.ExpF64, transpose: vec.TransposeF64}
)

// launch launches rows for dense lines, columns for many adjacent lines, and rows on the transpose
// of few.
func (k *softmaxKernels[T]) launch(c *ir.Call, dst, src []T, s kit.AxisSpan, rows func(dst, src []T, n int),
	columns func(c *ir.Call, dst, src []T, s kit.AxisSpan, base, m int)) error {
	const (
		few    = 64
		enough = 512 // elements in which the cost of a call of rows is lost
	)
	switch size := s.N * s.Inner; {
	case s.Inner == 1 && s.N > 0:
		kit.LaunchSpans(c, s.Outer, s.N, func(lo, hi int) { rows(dst[lo*s.N:hi*s.N], src[lo*s.N:hi*s.N], s.N) })
	case s.Inner >= few || size == 0:
		s.LaunchLines(c, func(base, m int) { columns(c, dst, src, s, base, m) })
	default:
		group := min(s.Outer, max(1, enough/size)) // the blocks whose lines are computed together
		room := group * size
		spaces := kit.WorkspaceCount(c, s.Outer)
		if err := c.Reserve(int64(spaces) * int64(2*room) * int64(unsafe.Sizeof(dst[0]))); err != nil {
			return err
		}
		c.Launch(s.Outer, kit.GrainFor(4*size), func(lo, hi int) {
			p, ok := k.transposes.Get().(*[]T)
			if !ok {
				p = new([]T)
			}
			defer k.transposes.Put(p)
			if len(*p) < 2*room {
				*p = make([]T, 2*room)
			}
			x, y, l := (*p)[:room], (*p)[room:2*room], cpu.Active()
			for ; lo < hi; lo += group {
				n := min(group, hi-lo)
				for i := range n {
					k.transpose(l, x[i*size:], s.N, src[(lo+i)*size:], s.Inner, s.N, s.Inner)
				}
				c.Check()
				rows(y[:n*size], x[:n*size], s.N)
				c.Check()
				for i := range n {
					k.transpose(l, dst[(lo+i)*size:], s.Inner, y[i*size:], s.N, s.Inner, s.N)
				}
			}
		})
	}
	return nil
}

// columns computes m adjacent lines that begin at base.
func (k *softmaxKernels[T]) columns(c *ir.Call, dst, src []T, s kit.AxisSpan, base, m int) {
	level, b := cpu.Active(), k.buffer()
	defer k.buffers.Put(b)
	top, sum, exp := b.top[:m], b.sum[:m], b.exp[:m]
	clear(sum)
	meter := ir.Meter{C: c}
	copy(top, src[base:base+m])
	for i := 1; i < s.N; i++ {
		meter.Check(m)
		k.max(level, top, top, src[base+i*s.Inner:][:m])
	}
	for i := range s.N {
		meter.Check(m)
		y := dst[base+i*s.Inner:][:m]
		k.sub(level, y, src[base+i*s.Inner:][:m], top)
		if k.log == nil {
			exp = y
		}
		k.exp(level, exp, y)
		k.add(level, sum, sum, exp)
	}
	finish := k.div
	if k.log != nil {
		k.log(level, sum, sum)
		finish = k.sub
	}
	for i := range s.N {
		meter.Check(m)
		y := dst[base+i*s.Inner:][:m]
		finish(level, y, y, sum)
	}
}

func (k *softmaxKernels[T]) buffer() *softmaxBuffer[T] {
	if b, ok := k.buffers.Get().(*softmaxBuffer[T]); ok {
		return b
	}
	return new(softmaxBuffer[T])
}

// doubleRows returns a kernel for rows of n elements. It computes the exponentials of several short
// rows together, and long rows in parts. It is not inlined, so that Softmax and LogSoftmax share
// its code.
//
//go:noinline
func doubleRows(c *ir.Call, k *softmaxKernels[float64]) func(dst, src []float64, n int) {
	return func(dst, src []float64, n int) {
		level, b := cpu.Active(), k.buffer()
		defer k.buffers.Put(b)
		meter := ir.Meter{C: c}
		for most := max(1, kit.ColumnBlock/n) * n; len(dst) > 0; {
			m := min(len(dst), most)
			x, y, top, sum := src[:m], dst[:m], b.top[:m/n], b.sum[:m/n]
			// parts calls fn with the rows, or with one row's parts, from element lo on.
			parts := func(cost int, fn func(lo, hi int)) {
				for lo := 0; lo < m; lo += kit.ColumnBlock {
					hi := min(m, lo+kit.ColumnBlock)
					meter.Check(cost * (hi - lo))
					fn(lo, hi)
				}
			}
			for i := range top {
				top[i], sum[i] = math.Inf(-1), 0
			}
			parts(1, func(lo, hi int) {
				for i := range top {
					top[i] = max(top[i], vec.ReduceMaxF64(level, x[lo+i*n:min(hi, lo+(i+1)*n)]))
				}
			})
			parts(kit.ExpCost, func(lo, hi int) {
				for i, v := range top {
					from, to := lo+i*n, min(hi, lo+(i+1)*n)
					d := y[from:to]
					for j, t := range x[from:to] {
						d[j] = t - v
					}
				}
				exp := y[lo:hi]
				if k.log != nil {
					exp = b.exp[:hi-lo]
				}
				k.exp(level, exp, y[lo:hi])
				for i := range sum {
					sum[i] += vec.SumF64(level, exp[i*n:min(hi-lo, (i+1)*n)])
				}
			})
			if k.log != nil {
				k.log(level, sum, sum)
			}
			parts(1, func(lo, hi int) {
				for i, v := range sum {
					row := y[lo+i*n : min(hi, lo+(i+1)*n)]
					if k.log != nil {
						for j := range row {
							row[j] -= v
						}
						continue
					}
					for j := range row {
						row[j] /= v
					}
				}
			})
			dst, src = dst[m:], src[m:]
		}
	}
}
