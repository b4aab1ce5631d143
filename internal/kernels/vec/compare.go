package vec

import "github.com/onward-ml/onward/internal/cpu"

// LessF32 computes dst[i] = a[i] < b[i].
func LessF32(l cpu.Level, dst []bool, a, b []float32) { lessF32(l, dst, a, b) }

// LessOrEqualF32 computes dst[i] = a[i] <= b[i].
func LessOrEqualF32(l cpu.Level, dst []bool, a, b []float32) { lessOrEqualF32(l, dst, a, b) }

// EqualF32 computes dst[i] = a[i] == b[i].
func EqualF32(l cpu.Level, dst []bool, a, b []float32) { equalF32(l, dst, a, b) }

// SelectU32 takes elements of 32 bits: dst[i] is x[i] where which[i] is true, y[i] elsewhere.
func SelectU32(l cpu.Level, dst, x, y []uint32, which []bool) { selectU32(l, dst, x, y, which) }

func lessF32Generic(dst []bool, a, b []float32) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] < b[i]
	}
}

func lessOrEqualF32Generic(dst []bool, a, b []float32) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] <= b[i]
	}
}

func equalF32Generic(dst []bool, a, b []float32) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] == b[i]
	}
}

func selectU32Generic(dst, x, y []uint32, which []bool) {
	x, y, which = x[:len(dst)], y[:len(dst)], which[:len(dst)]
	for i := range dst {
		v, u := y[i], x[i]
		if which[i] {
			v = u
		}
		dst[i] = v
	}
}
