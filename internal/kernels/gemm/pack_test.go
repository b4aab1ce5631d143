package gemm

import (
	"slices"
	"testing"
)

// This test checks that the columns that pad the last panel are zero, for any previous contents of
// the memory.
func TestPackPadsWithZeros(t *testing.T) {
	const k, n = 3, PanelWidth + 5
	b := make([]float32, k*n)
	for i := range b {
		b[i] = float32(i) + 1
	}
	for _, trans := range []bool{false, true} {
		ldb := n
		if trans {
			ldb = k
		}
		dst := make([]float32, PackedLen(k, n))
		for i := range dst {
			dst[i] = -7
		}
		Pack(dst, b, ldb, trans, k, n)
		for i, v := range dst[k*PanelWidth:] {
			if column := i % PanelWidth; (column >= n-PanelWidth) != (v == 0) {
				t.Fatalf("trans %v: row %d of the last panel has %g in column %d", trans, i/PanelWidth, v, column)
			}
		}
	}
}

func TestPackInPlace(t *testing.T) {
	for _, s := range [][2]int{{1, 32}, {7, 64}, {33, 96}, {5, 0}} {
		k, n := s[0], s[1]
		b := make([]float32, k*n)
		for i := range b {
			b[i] = float32(i)
		}
		want := make([]float32, PackedLen(k, n))
		Pack(want, b, k, true, k, n)
		if PackInPlace(b, k, n); !slices.Equal(b, want) {
			t.Errorf("%d×%d: %v, want %v", k, n, b, want)
		}
	}
}
