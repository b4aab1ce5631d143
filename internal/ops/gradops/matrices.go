package gradops

import (
	"math"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/internal/ops/kit/matmul"
)

var (
	// Cofactors holds for every element of a square matrix the derivative of the
	// determinant: det(X)·X⁻ᵀ, and for a singular X the minors with their signs.
	_ = registerGradientHelper("Cofactors", "X:T", gradientHelper{
		gradient: gradient.DecomposedFunction(func(b *gradient.Builder, n *gradient.Node, x string) string {
			return b.Op("Mul", b.Matrices(b.Op("Det", x)), b.Op("onward.InverseTransposed", x))
		}),
		infer: kit.SameAsInput, shape: shapeOfInput(0),
		compute: func(op *gradientHelper, c *ir.Call, x, y []float64, shape []int) error {
			return transposedInverses(c, x, y, shape, true)
		}})
	// InverseTransposed is X⁻ᵀ of square matrices, not finite for singular ones.
	_ = registerGradientHelper("InverseTransposed", "X:T", gradientHelper{
		gradient: gradient.Derivative(func(b *gradient.Builder, x, y, g string) string {
			return b.Op("Neg", b.Op("MatMul", b.Op("MatMul", y, b.Op("onward.SwapLast", g)), y))
		}),
		infer: kit.SameAsInput, shape: shapeOfInput(0),
		compute: func(op *gradientHelper, c *ir.Call, x, y []float64, shape []int) error {
			return transposedInverses(c, x, y, shape, false)
		}})
)

// transposedInverses writes X⁻ᵀ of the matrices of x, or their cofactors, to y.
func transposedInverses(c *ir.Call, x, y []float64, shape []int, cofactors bool) error {
	r := len(shape)
	if r < 2 || shape[r-1] != shape[r-2] {
		return fail.Errorf("input has shape %v, want square matrices", shape)
	}
	if len(x) == 0 {
		return nil
	}
	n := shape[r-1]
	work, err := ir.ScratchOf[float64](c, n*n)
	if err != nil {
		return err
	}
	pivots, factors := make([]int, n), make([]float64, n)
	for ; len(x) > 0; x, y = x[n*n:], y[n*n:] {
		det := 1.0
		if cofactors {
			copy(work, x[:n*n])
			if det, err = matmul.Determinant(c, work[:n*n], n); err != nil {
				return err
			}
			if det == 0 {
				if err := minors(c, work, x, y, n); err != nil {
					return err
				}
				continue
			}
		}
		copy(work, x[:n*n])
		if err := matmul.Invert(c, work, n, pivots, factors); err != nil {
			return err
		}
		for i := range n {
			for j, v := range work[n*i:][:n] {
				y[n*j+i] = det * v
			}
		}
	}
	return nil
}

// minors writes the cofactors of one matrix, computed as determinants, to y.
func minors(c *ir.Call, work, x, y []float64, n int) error {
	m := n - 1
	for i := range n {
		for j := range n {
			k := 0
			for p := range n {
				if p != i {
					row := x[p*n:][:n]
					k += copy(work[k:], row[:j])
					k += copy(work[k:], row[j+1:])
				}
			}
			d, err := matmul.Determinant(c, work[:m*m], m)
			if err != nil {
				return err
			}
			y[i*n+j] = d * math.Pow(-1, float64((i+j)%2))
		}
	}
	return nil
}
