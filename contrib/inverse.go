package contrib

import (
	"errors"
	"fmt"
	"math"

	"github.com/onward-ml/onward/tensor"
)

// Inverse returns the inverse of a square matrix, by elimination in float64.
var _ = register("Inverse", "input:float", "output:float", always(inverse))

func inverse(c *call) ([]tensor.Value, error) {
	shape := c.tensor(0).Shape()
	if len(shape) != 2 || shape[0] != shape[1] {
		return nil, fmt.Errorf("input has shape %v, want a square matrix", shape)
	}
	n := shape[0]
	if err := c.Reserve(20 * int64(n) * int64(n)); err != nil {
		return nil, err
	}
	// Rows of the matrix and of the identity, which becomes the inverse.
	rows := make([][]float64, n)
	for i := range rows {
		rows[i] = make([]float64, 2*n)
		for k, v := range c.floats(0)[i*n : (i+1)*n] {
			rows[i][k] = float64(v)
		}
		rows[i][n+i] = 1
	}
	for k := range n {
		if err := c.ctx.Err(); err != nil {
			return nil, err
		}
		pivot := k
		for i := k + 1; i < n; i++ {
			if math.Abs(rows[i][k]) > math.Abs(rows[pivot][k]) {
				pivot = i
			}
		}
		rows[k], rows[pivot] = rows[pivot], rows[k]
		if rows[k][k] == 0 {
			return nil, errors.New("the matrix is singular")
		}
		scale := 1 / rows[k][k]
		for j := range rows[k] {
			rows[k][j] *= scale
		}
		for i, r := range rows {
			if f := r[k]; i != k && f != 0 {
				for j, v := range rows[k] {
					r[j] -= f * v
				}
			}
		}
	}
	out := make([]float32, 0, n*n)
	for _, r := range rows {
		for _, v := range r[n:] {
			out = append(out, float32(v))
		}
	}
	return values(shaped(out, n, n))
}
