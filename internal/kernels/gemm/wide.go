package gemm

import (
	"github.com/onward-ml/onward/internal/cpu"
)

// wideTile computes a tile of float64 or integers in pieces with the level's kernels, and the
// remaining columns with plain loops. It reports whether the level has kernels. Which columns
// remain does not depend on the rows of the tile, so that the cut does not change sums.
func wideTile[T Number](level cpu.Level, t *tile[T]) bool {
	if t.k == 0 || level == cpu.Generic {
		return false
	}
	done := false
	switch t := any(t).(type) {
	case *tile[float64]:
		done = widePieces(level, t, wideF)
	case *tile[int32]:
		done = widePieces(level, t, wideI)
	case *tile[int64]:
		done = widePieces(level, t, wideL)
	}
	if done {
		t.epilogue()
	}
	return done
}

func widePieces[T Number](level cpu.Level, t *tile[T],
	kernel func(l cpu.Level, a, b, c []T, lda, ldb, ldc, k, rows, cols, acc int) (int, int)) bool {
	acc := 0
	if t.acc {
		acc = 1
	}
	for j := 0; j < t.cols; {
		wide := 0
		for i := 0; i < t.rows; {
			r, n := kernel(level, t.a[i*t.lda:], t.b[j:], t.c[i*t.ldc+j:], t.lda, t.ldb, t.ldc, t.k,
				t.rows-i, t.cols-j, acc)
			if r == 0 {
				if j == 0 && t.cols >= PanelWidth {
					return false
				}
				n = t.cols - j
				for ; i < t.rows; i++ {
					microRow(t.c[i*t.ldc+j:][:n], t.a[i*t.lda:], t.b[j:], t.ldb, t.k, t.acc)
				}
			}
			i, wide = i+r, n
		}
		j += wide
	}
	return true
}
