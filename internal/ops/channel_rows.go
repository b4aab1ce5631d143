package ops

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
)

// channelsLast writes images of ch planes with n elements to dst, with the channels of an element
// adjacent.
func channelsLast[T kit.RealFloat](c *ir.Call, dst, src []T, ch, n int) {
	c.Parallel(len(src)/max(1, ch), kit.GrainFor(ch), func(lo, hi int) {
		for end := lo; lo < hi; lo = end {
			image, at := lo/n, lo%n
			end = min(hi, lo+n-at)
			transposeReal(dst[lo*ch:], ch, src[image*ch*n+at:], n, ch, end-lo)
		}
	})
}

// addRows adds the rows of x, which are step elements apart, times weights to row.
func addRows[T kit.RealFloat](row, x []T, step int, weights []T) {
	if to, ok := any(row).([]float32); ok {
		vec.AxpyRowsF32(cpu.Active(), to, 0, any(x).([]float32), step, len(to), any(weights).([]float32))
		return
	}
	for i, w := range weights {
		for j, v := range x[i*step:][:len(row)] {
			row[j] += w * v
		}
	}
}

// transposeReal is [vec.TransposeF32] or [vec.TransposeF64].
func transposeReal[T kit.RealFloat](dst []T, ldd int, src []T, lds, rows, cols int) {
	if to, ok := any(dst).([]float32); ok {
		vec.TransposeF32(cpu.Active(), to, ldd, any(src).([]float32), lds, rows, cols)
	} else {
		vec.TransposeF64(cpu.Active(), any(dst).([]float64), ldd, any(src).([]float64), lds, rows, cols)
	}
}
