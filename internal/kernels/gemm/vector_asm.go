//go:build (amd64 || arm64) && !purego

package gemm

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/kernels/vec"
)

const (
	groupBytes = 1 << 19 // bytes of B per call: about 20 µs from memory
	addColumns = 4096    // columns of C at a time: 16 KiB stay in the first-level cache
)

// vectorAsm computes the few rows of a block directly from an unpacked B, and reports whether it
// did. Each element of B is used once or twice, so packing it, or the strided reads of the tiles,
// would cost more than the multiplication.
func vectorAsm(level cpu.Level, a *Args[float32], blk Block) bool {
	if (a.Packed || a.Half != nil) && a.M == 1 && a.BF16 == nil && !a.TransA && hasRowPanels(level) {
		rowOfPanels(level, a, blk)
		return true
	}
	if a.Packed || a.Half != nil || a.TransA || a.K < 4 || !hasVector(level) {
		return false
	}
	j0, j1 := blk.Panel0*PanelWidth, min(a.N, blk.Panel1*PanelWidth)
	// One panel is as fast as a tile. The choice does not depend on the block, because the two ways
	// round differently.
	if !a.TransB && a.N < 2*PanelWidth {
		return false
	}
	for i := blk.Row0; i < blk.Row1; i++ {
		c, x := a.C[i*a.LdC+j0:][:j1-j0], a.A[i*a.LdA:][:a.K]
		if a.TransB {
			dots(level, c, x, a.B[j0*a.LdB:], a.LdB)
		} else {
			clear(c)
			adds(level, c, x, a.B[j0:], a.LdB)
		}
		a.applyVectors(level, c, i, j0)
	}
	return true
}

// rowOfPanels computes a block of one row from packed panels, with the sums of the tile of one row.
// That reads a single stream, and 15 to 20 % less in a second from the caches.
func rowOfPanels(level cpu.Level, a *Args[float32], blk Block) {
	var sum [2 * PanelWidth]float32
	steps := a.kBlock(level, 1)
	for p := blk.Panel0; p < blk.Panel1; {
		n := min(2, blk.Panel1-p)
		clear(sum[:n*PanelWidth])
		for k := 0; k < a.K; k += steps {
			at, m := (p*a.K+k)*PanelWidth, min(steps, a.K-k)
			if a.Half != nil {
				rowHalves(n, &sum[0], &a.A[k], &a.Half[at], a.K*PanelWidth*2, m)
			} else {
				rowPanels(n, &sum[0], &a.A[k], &a.B[at], a.K*PanelWidth*4, m)
			}
		}
		c := a.C[p*PanelWidth : min(a.N, (p+n)*PanelWidth)]
		copy(c, sum[:])
		a.applyVectors(level, c, 0, p*PanelWidth)
		p += n
	}
}

// applyVectors is [Epilogue.apply] with vector kernels.
func (a *Args[T]) applyVectors(level cpu.Level, c []float32, row, col int) {
	e := any(&a.Epilogue).(*Epilogue[float32])
	rest := *e
	if e.Alpha != 0 && e.Alpha != 1 {
		vec.MulScalarF32(level, c, c, e.Alpha)
		rest.Alpha = 0
	}
	if e.BiasCol != nil {
		vec.AddF32(level, c, c, e.BiasCol[col:][:len(c)])
		rest.BiasCol = nil
	}
	rest.apply(c, row, col)
}

// dots computes c[r] = Σ x[k]·b[r*ldb+k].
func dots(level cpu.Level, c, x, b []float32, ldb int) {
	n := len(c) &^ 3
	most := max(4, groupBytes/(4*len(x))&^3)
	for r := 0; r < n; r += most {
		m := min(most, n-r)
		dotPart(level, c[r:r+m], x, b[r*ldb:], ldb)
	}
	for r := n; r < len(c); r++ {
		c[r] = vec.DotF32(level, x, b[r*ldb:])
	}
}

// dotPart computes four or more rows over all of x, in parts of MaxKC·8 elements.
func dotPart(level cpu.Level, c, x, b []float32, ldb int) {
	const part = 8 * MaxKC
	var sum [4]float32
	for k := 0; k < len(x); k += part {
		n := min(part, len(x)-k)
		d := &c[0]
		if k > 0 {
			d = &sum[0]
		}
		dotRows(level, d, &x[k], &b[k], ldb*4, n, len(c))
		if k > 0 { // a long x has groups of four rows
			for i, v := range sum {
				c[i] += v
			}
		}
	}
}

// adds computes c[j] += Σ x[k]·b[k*ldb+j].
func adds(level cpu.Level, c, x, b []float32, ldb int) {
	for j := 0; j < len(c); j += addColumns {
		d := c[j:min(len(c), j+addColumns)]
		n := len(x) &^ 3
		most := max(4, groupBytes/(4*len(d))&^3)
		for k := 0; k < n; k += most {
			addRows(level, &d[0], &x[k], &b[k*ldb+j], ldb*4, len(d), min(most, n-k)/4)
		}
		for k := n; k < len(x); k++ {
			vec.AxpyF32(level, d, b[k*ldb+j:], x[k])
		}
	}
}
