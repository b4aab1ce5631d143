package ops

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/tensor"
)

// CumSum returns the cumulative sums of the elements along an axis
// (https://onnx.ai/onnx/operators/onnx__CumSum.html).
type CumSum struct{ cumulative }

var _ = kit.Register(&kit.Def{Name: "CumSum", Since: kit.Versions{11, 14}, In: "x:T, axis:T2", Out: "y:T",
	Types: "T: uint32 uint64 int32 int64 @float; T2: int32 int64",
	Build: func(a *kit.Attrs, opset int) kit.Operator { return &CumSum{readCumulative(a)} },
	Gradient: gradient.Rule(func(b *gradient.Builder, n *gradient.Node, g string) ([]string, error) {
		m := *n
		m.Attrs = n.Attrs.With("reverse", 1-min(1, n.Attrs.Int("reverse", 0)))
		return n.First(b.Again(&m, g)[0]), nil
	})})

var cumSumTable = map[tensor.DType]cumulativeKernel{
	tensor.TypeInt32:   cumSumInts32,
	tensor.TypeInt64:   cumSumInts64,
	tensor.TypeUint32:  cumulativeBits(tensor.TypeInt32, cumSumInts32),
	tensor.TypeUint64:  cumulativeBits(tensor.TypeInt64, cumSumInts64),
	tensor.TypeFloat32: cumulativeRows(fewLines, vec.AddF32, cumSum[float32]),
	tensor.TypeFloat64: cumulativeRows(fewLines, vec.AddF64, cumSum[float64]),
}

var cumSumInts32, cumSumInts64 = cumulativeRows(fewLines, vec.AddI32, cumSum[int32]),
	cumulativeRows(fewLines, vec.AddI64, cumSum[int64])

// Run implements [ir.Operator].
func (o *CumSum) Run(c *ir.Call) error { return o.RunWith(c, cumSumTable) }

func cumSumLines[T kit.RealNumber](dst, src []T, l cumulativeLines) {
	var acc [kit.ColumnBlock]T
	for k := range l.N {
		if k&0xfff == 0xfff && l.Call.Err() != nil {
			return
		}
		at := l.At(k)
		x, y, a := src[at:at+l.M], dst[at:at+l.M], acc[:l.M]
		if l.Exclusive {
			for j := range y {
				y[j] = a[j]
				a[j] += x[j]
			}
			continue
		}
		for j := range y {
			a[j] += x[j]
			y[j] = a[j]
		}
	}
}

// cumSum processes single lines four at a time, since each addition waits for the previous one, and
// few adjacent lines as one.
func cumSum[T int32 | int64 | float32 | float64](c *ir.Call, out, x *tensor.Tensor, l cumulativeLines) error {
	if size := l.N * l.Inner; !c.Generic && l.Inner > 1 && l.Inner < fewLines {
		dst, src := tensor.MustData[T](out), tensor.MustData[T](x)
		kit.ParallelSpans(c, l.Outer, size, func(lo, hi int) {
			for ; lo < hi; lo++ {
				cumSumAdjacent(dst[lo*size:][:size], src[lo*size:][:size], l)
			}
		})
		return nil
	}
	if c.Generic || l.Inner != 1 {
		return cumulativeOf(kit.ColumnBlock, cumSumLines[T])(c, out, x, l)
	}
	dst, src := tensor.MustData[T](out), tensor.MustData[T](x)
	if len(dst) == 0 {
		return nil
	}
	kit.ParallelSpans(c, l.Outer, l.N, func(lo, hi int) {
		for ; lo+4 <= hi; lo += 4 {
			cumSumFour(dst[lo*l.N:(lo+4)*l.N], src[lo*l.N:(lo+4)*l.N], l)
		}
		for ; lo < hi; lo++ {
			cumSumLine(dst[lo*l.N:][:l.N], src[lo*l.N:][:l.N], l)
		}
	})
	return nil
}

// fewLines is the number of adjacent lines from which a vector kernel for each of their rows is
// faster than a loop.
const fewLines = 48

// cumSumAdjacent processes adjacent lines.
func cumSumAdjacent[T int32 | int64 | float32 | float64](dst, src []T, l cumulativeLines) {
	step, n := l.Inner, len(dst)
	if n == 0 {
		return
	}
	first, from, shift := dst[:step], src, 0
	if l.Reverse {
		first, from = dst[n-step:], src[n-step:]
	}
	if l.Exclusive {
		shift = step
		clear(first)
	} else {
		copy(first, from)
	}
	if !l.Reverse && !l.Exclusive {
		rows := max(1, ir.GrainWatch/step)
		for k := 1; k < l.N && l.Call.Err() == nil; k += rows {
			m := min(l.N-k, rows) * step
			vec.Cumulate(cpu.Active(), dst[k*step:][:m], src[k*step:], dst[(k-1)*step:], step)
		}
		return
	}
	for done := step; done < n && l.Call.Err() == nil; {
		m := min(n-done, ir.GrainWatch)
		if done += m; l.Reverse {
			y, next, x := dst[n-done:][:m], dst[n-done+step:][:m], src[n-done+shift:][:m]
			for i := m - 1; i >= 0; i-- {
				y[i] = next[i] + x[i]
			}
			continue
		}
		y, x := dst[done-m:done], src[done-m-shift:][:m]
		for i, before := range dst[done-m-step:][:m] {
			y[i] = before + x[i]
		}
	}
}

// cumSumLine processes one line.
func cumSumLine[T kit.RealNumber](dst, src []T, l cumulativeLines) {
	var sum T
	const most = 1 << 16 // elements between checks of the context
	for lo := 0; lo < l.N && l.Call.Err() == nil; lo += most {
		n := min(l.N-lo, most)
		if l.Reverse {
			y, x := dst[l.N-lo-n:][:n], src[l.N-lo-n:][:n]
			for k := n - 1; k >= 0; k-- {
				before := sum
				sum += x[k]
				if y[k] = sum; l.Exclusive {
					y[k] = before
				}
			}
			continue
		}
		y := dst[lo:][:n]
		if l.Exclusive {
			for k, v := range src[lo:][:n] {
				y[k] = sum
				sum += v
			}
			continue
		}
		for k, v := range src[lo:][:n] {
			sum += v
			y[k] = sum
		}
	}
}

// cumSumFour processes four adjacent lines.
func cumSumFour[T kit.RealNumber](dst, src []T, l cumulativeLines) {
	n := l.N
	x0, x1, x2, x3 := src[:n], src[n:][:n], src[2*n:][:n], src[3*n:][:n]
	y0, y1, y2, y3 := dst[:n], dst[n:][:n], dst[2*n:][:n], dst[3*n:][:n]
	var s0, s1, s2, s3 T
	for k := range n {
		if k&0xffff == 0xffff && l.Call.Err() != nil {
			return
		}
		if l.Reverse {
			k = n - 1 - k
		}
		v0, v1, v2, v3 := s0+x0[k], s1+x1[k], s2+x2[k], s3+x3[k]
		if l.Exclusive {
			y0[k], y1[k], y2[k], y3[k] = s0, s1, s2, s3
		} else {
			y0[k], y1[k], y2[k], y3[k] = v0, v1, v2, v3
		}
		s0, s1, s2, s3 = v0, v1, v2, v3
	}
}

// cumulativeRows returns a kernel that combines whole rows of adjacent lines with a vector kernel,
// or calls plain for other shapes.
func cumulativeRows[T int32 | int64 | float32 | float64](least int, combine func(l cpu.Level, dst, a, b []T),
	plain cumulativeKernel) cumulativeKernel {
	const block = 1024 // elements: the previous row stays in the first-level cache
	rows := cumulativeOf(block, func(dst, src []T, l cumulativeLines) {
		for k := range l.N {
			if k&0xfff == 0xfff && l.Call.Err() != nil {
				return
			}
			at := l.At(k)
			if k == 0 {
				copy(dst[at:at+l.M], src[at:])
				continue
			}
			combine(cpu.Active(), dst[at:at+l.M], dst[l.At(k-1):], src[at:])
		}
	})
	return func(c *ir.Call, out, x *tensor.Tensor, l cumulativeLines) error {
		if c.Generic || l.Exclusive || l.Inner < least {
			return plain(c, out, x, l)
		}
		return rows(c, out, x, l)
	}
}
