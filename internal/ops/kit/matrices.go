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

// Eliminate converts n rows [A | B] to [1 | A⁻¹·B].
func Eliminate(c *ir.Call, a []float64, n int) error {
	row := func(i int) []float64 { return a[2*n*i:][:2*n] }
	for k := range n {
		if err := c.Err(); err != nil {
			return err
		}
		best := k
		for i := k + 1; i < n; i++ {
			if math.Abs(row(i)[k]) > math.Abs(row(best)[k]) {
				best = i
			}
		}
		p, q := row(k), row(best)
		if best != k {
			for j := range p {
				p[j], q[j] = q[j], p[j]
			}
		}
		d := p[k]
		for j := range p {
			p[j] /= d
		}
		for i := range n {
			if i == k {
				continue
			}
			q := row(i)
			f := q[k]
			if f == 0 {
				continue
			}
			for j := k; j < len(q); j++ {
				q[j] -= f * p[j]
			}
		}
	}
	return nil
}
