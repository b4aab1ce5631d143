//go:build (amd64 || arm64) && !purego

package gemm

import "github.com/onward-ml/onward/internal/cpu"

// headBytes is the size of the rows that stay in the first-level cache while all heads read them.
const headBytes = 1 << 14

// DotHeads computes the scores of n keys for one query of each head: dst[h*ldd+r] = Σ
// q[h*ldq+j]·b[r][j] over k columns, for which there are kernels ([HasHeads]). It reads each key
// from memory once. A score does not depend on the number of heads or keys.
func DotHeads(level cpu.Level, heads int, dst []float32, ldd int, q []float32, ldq int, b HeadRows, k, n int) {
	if heads == 0 || n == 0 {
		return
	}
	_, _, _ = dst[(heads-1)*ldd+n-1], q[(heads-1)*ldq+k-1], b.Data[((n-1)*b.Ld+k)*b.size()-1]
	ld, part := b.Ld*b.size(), b.partRows()
	for from := 0; from < n; from += part {
		to := min(n, from+part)
		whole := (to - from) &^ 3
		for h := 0; h < heads; {
			m := headsOf(level, heads-h)
			d, x := dst[h*ldd:], &q[h*ldq]
			if whole > 0 {
				dotHeads(level, b.Format, m, &d[from], 4*ldd, x, 4*ldq, &b.Data[from*ld], ld, k, whole/4)
			}
			for r := from + whole; r < to; r++ { // four times the same row
				var s [16]float32
				dotHeads(level, b.Format, m, &s[0], 16, x, 4*ldq, &b.Data[r*ld], 0, k, 1)
				for i := range m {
					d[i*ldd+r] = s[4*i]
				}
			}
			h += m
		}
	}
}

// AddHeads adds the products of probabilities and n values to one row of each head: y[h*ldy+j] +=
// Σ p[h*ldp+r]·b[r][j] for k columns, for which there are kernels ([HasHeads]). It reads each value
// from memory once. An element is a sum in the order of the values, whatever the number of
// heads, and in calls for parts of the values.
func AddHeads(level cpu.Level, heads int, y []float32, ldy int, p []float32, ldp int, b HeadRows, k, n int) {
	if heads == 0 || n == 0 {
		return
	}
	_, _, _ = y[(heads-1)*ldy+k-1], p[(heads-1)*ldp+n-1], b.Data[((n-1)*b.Ld+k)*b.size()-1]
	ld, part := b.Ld*b.size(), b.partRows()
	for r := 0; r < n; r += part {
		for h := 0; h < heads; {
			m := headsOf(level, heads-h)
			addHeads(level, b.Format, m, &y[h*ldy], 4*ldy, &p[h*ldp+r], 4*ldp, &b.Data[r*ld], ld, k, min(part, n-r))
			h += m
		}
	}
}

// partRows returns the number of rows, a multiple of four, that fill a part of the first-level
// cache.
func (r *HeadRows) partRows() int { return max(4, headBytes/(r.Ld*r.size())&^3) }

// headsOf returns the number of heads, of at most n, that one kernel computes.
func headsOf(level cpu.Level, n int) int {
	switch {
	case n >= 4 && level != cpu.AVX2:
		return 4
	case n >= 2:
		return 2
	}
	return 1
}
