package matmul

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/vec"
)

// eliminationLevel returns the level of the kernel that subtracts rows of n elements.
func eliminationLevel(c *ir.Call, n int) cpu.Level {
	if c.Generic || n < 6 { // for which the call costs more than the loop
		return cpu.Generic
	}
	return cpu.Active()
}

// Determinant returns the Determinant of an m×m matrix, which it overwrites.
func Determinant(c *ir.Call, a []float64, m int) (float64, error) {
	det := 1.0
	meter := &ir.Meter{C: c}
	for k := range m {
		p := k
		top := math.Abs(a[k*m+k])
		for i := k + 1; i < m; i++ {
			if v := math.Abs(a[i*m+k]); v > top {
				p, top = i, v
			}
		}
		if p != k {
			det = -det
			x, y := a[p*m+k:(p+1)*m], a[k*m+k:(k+1)*m]
			for j, v := range x {
				x[j], y[j] = y[j], v
			}
		}
		pivot := a[k*m+k]
		det *= pivot
		if pivot == 0 {
			return 0, nil
		}
		if !meter.Spend((m - k) * (m - k)) {
			return 0, c.Err()
		}
		if k+1 == m {
			break
		}
		for i := k + 1; i < m; i++ {
			a[i*m+k] /= pivot // whose reciprocal may be infinite
		}
		vec.SubRowsF64(eliminationLevel(c, m-k-1), a[(k+1)*m+k+1:], m, a[k*m+k+1:(k+1)*m], a[(k+1)*m+k:], m, m-k-1)
	}
	return det, nil
}

// Invert replaces an n×n matrix by its inverse: Gauss–Jordan elimination in place with row
// pivoting. The inverse of a singular matrix has infinite or NaN elements. pivots and factors are
// scratch memory for n numbers each.
func Invert(c *ir.Call, a []float64, n int, pivots []int, factors []float64) error {
	level := eliminationLevel(c, n)
	for k := range n {
		if err := c.Err(); err != nil {
			return err
		}
		best := k
		for i := k + 1; i < n; i++ {
			if math.Abs(a[i*n+k]) > math.Abs(a[best*n+k]) {
				best = i
			}
		}
		pivots[k] = best
		p := a[k*n:][:n]
		if best != k {
			q := a[best*n:][:n]
			for j, v := range p {
				p[j], q[j] = q[j], v
			}
		}
		// Column k of the identity takes the place of the column that becomes one.
		d := p[k]
		p[k] = 1
		for j := range p {
			p[j] /= d
		}
		for i := range n {
			if i != k {
				factors[i], a[i*n+k] = a[i*n+k], 0
			}
		}
		vec.SubRowsF64(level, a, n, p, factors, 1, k)
		if k+1 < n {
			vec.SubRowsF64(level, a[(k+1)*n:], n, p, factors[k+1:], 1, n-k-1)
		}
	}
	for k := n - 1; k >= 0; k-- {
		if best := pivots[k]; best != k {
			for i := range n {
				q := a[i*n:][:n]
				q[k], q[best] = q[best], q[k]
			}
		}
	}
	return nil
}
