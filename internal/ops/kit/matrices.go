package kit

import (
	"math"

	"github.com/onward-ml/onward/internal/ir"
)

// Determinant returns the Determinant of an m×m matrix, which it overwrites.
func Determinant(c *ir.Call, a []float64, m int) (float64, error) {
	det := 1.0
	meter := &Meter{C: c}
	for k := range m {
		p := k
		for i := k + 1; i < m; i++ {
			if math.Abs(a[i*m+k]) > math.Abs(a[p*m+k]) {
				p = i
			}
		}
		if p != k {
			det = -det
			for j := k; j < m; j++ {
				a[p*m+j], a[k*m+j] = a[k*m+j], a[p*m+j]
			}
		}
		pivot := a[k*m+k]
		det *= pivot
		if pivot == 0 {
			return 0, nil
		}
		row := a[k*m+k+1 : (k+1)*m]
		for i := k + 1; i < m; i++ {
			f := a[i*m+k] / pivot
			for j, v := range row {
				a[i*m+k+1+j] -= f * v
			}
			if !meter.Spend(m - k) {
				return 0, c.Err()
			}
		}
	}
	return det, nil
}

// Invert replaces an n×n matrix by its inverse: Gauss–Jordan elimination in place with row pivoting.
// The inverse of a singular matrix has infinite or NaN elements. pivots is scratch memory for n
// numbers.
func Invert(c *ir.Call, a []float64, n int, pivots []int) error {
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
			q := a[i*n:][:n]
			if f := q[k]; i != k && f != 0 {
				q[k] = 0
				for j, v := range p {
					q[j] -= f * v
				}
			}
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
