package vec

import "github.com/onward-ml/onward/internal/cpu"

// ArgColumnsF32 sets at[j] to the index of the largest, or the smallest, of the rows elements
// x[i*step+j] of column j. NaN precedes all numbers. Of equal elements, it takes the first, or the
// last one. value is workspace of the length of at. It returns false, with nothing done, if the
// level has no kernel for so few columns. It calls check after up to 8192 elements.
func ArgColumnsF32(l cpu.Level, at []int32, value, x []float32, step, rows int, least, last bool, check func()) bool {
	w := width(l)
	if w == 0 || len(at) < w {
		return false
	}
	_, _ = value[len(at)-1], x[(rows-1)*step+len(at)-1]
	first, up := 0, step
	if last { // search from the end
		first, up = rows-1, -step
	}
	begin := x[first*step:][:len(at)]
	sign := uint32(0)
	if copy(value, begin); least {
		sign = 1 << 31
		for j, v := range begin {
			value[j] = -v
		}
	}
	clear(at)
	for i := 1; i < rows; {
		n := min(rows-i, max(1, chunk/len(at)))
		argColumnsF32(l, at, value, x[(first*step+i*up):], up, n, int32(i), sign)
		i += n
		check()
	}
	if last {
		for j, i := range at {
			at[j] = int32(rows-1) - i
		}
	}
	return true
}
