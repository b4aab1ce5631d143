package vec

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
)

// SumWindowF32 adds the elements of a window of x for each element of dst, row by row. Unless fresh
// is set, the first summand is dst itself:
//
//	for r := range rows {
//		for k := range taps {
//			dst[i] += x[i*stride+r*rowStep+k*tapStep]
//		}
//	}
//
// Windows with a stride of 1 or 2 are computed with vectors. The results at all levels are equal.
func SumWindowF32(l cpu.Level, dst, x []float32, rows, rowStep, taps, tapStep, stride int, fresh bool) {
	sumWindows.run(l, dst, x, rows, rowStep, taps, tapStep, stride, fresh)
}

// MaxWindowF32 is [SumWindowF32] for the maximum; NaN propagates. Which of two zeros of different
// sign is chosen depends on the level.
func MaxWindowF32(l cpu.Level, dst, x []float32, rows, rowStep, taps, tapStep, stride int, fresh bool) {
	maxWindows.run(l, dst, x, rows, rowStep, taps, tapStep, stride, fresh)
}

// MinWindowF32 is [MaxWindowF32] for the minimum.
func MinWindowF32(l cpu.Level, dst, x []float32, rows, rowStep, taps, tapStep, stride int, fresh bool) {
	minWindows.run(l, dst, x, rows, rowStep, taps, tapStep, stride, fresh)
}

// windowFold is an operation over windows.
type windowFold struct {
	kernel  func(l cpu.Level, dst, x []float32, rows, rowStep, taps, tapStep, stride, fresh int) int
	initial float32
	each    func(l cpu.Level, dst, a, b []float32)
	strided func(dst, x []float32, stride int) // folds every stride-th element of x
	// adjacent folds windows of n elements side by side. It is nil if the order of the elements
	// matters.
	adjacent func(l cpu.Level, dst, x []float32, n, first int)
}

var (
	sumWindows = &windowFold{sumWindow, 0, AddF32, addStrided, nil}
	maxWindows = &windowFold{maxWindow, float32(math.Inf(-1)), MaxF32, maxStrided, MaxRowsF32}
	minWindows = &windowFold{minWindow, float32(math.Inf(1)), MinF32, minStrided, MinRowsF32}
)

// windowTaps is the maximum number of elements of a window that one call of a kernel combines with
// 64 elements of dst: about 2 µs from the caches.
const windowTaps = 512

// run divides the windows and dst into parts, since assembly cannot be preempted.
func (f *windowFold) run(l cpu.Level, dst, x []float32, rows, rowStep, taps, tapStep, stride int, fresh bool) {
	if rows <= 0 || taps <= 0 || len(dst) == 0 {
		if fresh {
			FillF32(dst, f.initial)
		}
		return
	}
	if f.adjacent != nil && fresh && rows == 1 && taps == stride && tapStep == 1 && 2 < taps && taps <= MostRowsF32 &&
		len(dst) >= LeastRowsF32 {
		f.adjacent(l, dst, x, taps, 0)
		return
	}
	if taps > 1 && (rows == 1 || taps > windowTaps) { // each row as a column of windows
		for r := range rows {
			f.run(l, dst, x[r*rowStep:], taps, tapStep, 1, 0, stride, fresh)
			fresh = false
		}
		return
	}
	_ = x[(len(dst)-1)*stride+(rows-1)*rowStep+(taps-1)*tapStep]
	first := 0
	if fresh {
		first = 1
	}
	if rows*taps <= windowTaps && len(dst)*rows*taps <= 64*windowTaps { // one part, without divisions
		f.part(l, dst, x, rows, rowStep, taps, tapStep, stride, first)
		return
	}
	for group := windowTaps / taps; rows > 0; rows, x, first = rows-group, x[min(len(x), group*rowStep):], 0 {
		n := min(rows, group)
		step := max(64, windowTaps*64/(n*taps)&^63)
		for lo := 0; lo < len(dst); lo += step {
			f.part(l, dst[lo:min(len(dst), lo+step)], x[lo*stride:], n, rowStep, taps, tapStep, stride, first)
		}
	}
}

func (f *windowFold) part(l cpu.Level, dst, x []float32, rows, rowStep, taps, tapStep, stride, fresh int) {
	done := f.kernel(l, dst, x, rows, rowStep, taps, tapStep, stride, fresh)
	if done == len(dst) {
		return
	}
	dst, x = dst[done:], x[done*stride:]
	if fresh != 0 {
		FillF32(dst, f.initial)
	}
	for r := range rows {
		for k := range taps {
			w := x[r*rowStep+k*tapStep:]
			if stride == 1 {
				f.each(l, dst, dst, w)
				continue
			}
			f.strided(dst, w, stride)
		}
	}
}

// MaskedWindowF32 sets the elements of rows of n in dst. Windows of a row have the given stride,
// rows of x the stride pitch. Element i is the maximum of the elements x[i*stride+k*tapStep] of its
// row whose bit i%16 is set in masks[i/16*taps+k], or their sum if sum is 1. NaN propagates. The
// stride is at most 4. x has elements for whole vectors of 16 outputs, of which the kernel reads
// those without a bit. There is a kernel for AVX-512 only, and callers limit taps*len(dst) to some
// ten thousands.
func MaskedWindowF32(dst, x []float32, n, pitch, taps, tapStep, stride int, masks []uint16, sum int) {
	vectors := (n + 15) / 16
	_, _ = x[(len(dst)/n-1)*pitch+vectors*16*stride+(taps-1)*tapStep-1], masks[vectors*taps-1]
	maskedWindow(dst, x, n, pitch, taps, tapStep, stride, masks, sum)
}

// Line is a row of N windows of one column: where it begins, and how many rows it combines.
type Line struct{ From, Taps, N int }

// LineWindowF32 sets rows of dst to the maxima of the rows of x that begin tapStep elements apart,
// from lines[i].From on, or to their sums if sum is 1. It skips gap elements of dst after each row.
// It has the limits of [MaskedWindowF32].
func LineWindowF32(dst []float32, gap int, x []float32, lines []Line, tapStep, sum int) {
	at := 0
	for _, r := range lines {
		if r.Taps > 0 {
			_ = x[r.From : r.From+(r.Taps-1)*tapStep+r.N]
		}
		_ = dst[at : at+r.N]
		at += r.N + gap
	}
	lineWindow(dst, gap, x, lines, tapStep, sum)
}

func addStrided(dst, x []float32, stride int) {
	for i := range dst {
		dst[i] += x[i*stride]
	}
}

func maxStrided(dst, x []float32, stride int) {
	for i := range dst {
		dst[i] = max(dst[i], x[i*stride])
	}
}

func minStrided(dst, x []float32, stride int) {
	for i := range dst {
		dst[i] = min(dst[i], x[i*stride])
	}
}

// FillF32 sets all elements of dst to v.
func FillF32(dst []float32, v float32) {
	for i := range dst[:min(len(dst), 16)] {
		dst[i] = v
	}
	for n := 16; n < len(dst); n *= 2 {
		copy(dst[n:], dst[:n])
	}
}
