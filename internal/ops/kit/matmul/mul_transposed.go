package matmul

import (
	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/ops/kit"
)

// MulTransposed computes C[m,n] = A[m,k] · B[n,k]ᵀ (+ bias[n]). Strides are in elements.
func MulTransposed[T kit.RealFloat](c *ir.Call, m, n, k int, a []T, lda int, b []T, ldb int,
	bias []T, out []T, ldc int) {
	if m == 0 || n == 0 {
		return
	}
	if c.Generic || k == 0 {
		plainProduct(c, m, n, k, func(i, j int) {
			row, w := a[i*lda:][:k], b[j*ldb:][:k]
			s := 0.0
			for from, to := range ir.Steps(c, k) {
				for p, v := range row[from:to] {
					s += float64(v) * float64(w[from+p])
				}
			}
			if bias != nil {
				s += float64(bias[j])
			}
			out[i*ldc+j] = T(s)
		})
		return
	}
	FastMul(c, &gemm.Args[T]{M: m, N: n, K: k, A: a, LdA: lda, B: b, LdB: ldb, TransB: true, C: out, LdC: ldc,
		Epilogue: gemm.Epilogue[T]{BiasCol: bias}})
}

// plainProduct calls dot for every element of an m×n GEMM, with sums of k terms.
func plainProduct(c *ir.Call, m, n, k int, dot func(i, j int)) {
	c.Parallel(m*n, kit.GrainFor(k), func(lo, hi int) {
		for at := lo; at < hi; at++ {
			dot(at/n, at%n)
		}
	})
}

// FastMul multiplies on all threads of the call with the best kernel for T.
func FastMul[T kit.RealFloat](c *ir.Call, a *gemm.Args[T]) {
	gemm.Parallel(func(n int, fn func(lo, hi int)) { c.Parallel(n, 1, fn) }, cpu.Active(), a)
}

// MulPlain computes C[m,n] = A[m,k] · B[k,n] (+ bias[n]) without gaps between rows.
func MulPlain[T kit.RealFloat](c *ir.Call, m, n, k int, a, b, bias, out []T) {
	if m == 0 || n == 0 {
		return
	}
	if c.Generic || k == 0 {
		plainProduct(c, m, n, k, func(i, j int) {
			s := 0.0
			row := a[i*k:][:k]
			for from, to := range ir.Steps(c, k) {
				for p, v := range row[from:to] {
					s += float64(v) * float64(b[(from+p)*n+j])
				}
			}
			if bias != nil {
				s += float64(bias[j])
			}
			out[i*n+j] = T(s)
		})
		return
	}
	FastMul(c, &gemm.Args[T]{M: m, N: n, K: k, A: a, LdA: k, B: b, LdB: n, C: out, LdC: n,
		Epilogue: gemm.Epilogue[T]{BiasCol: bias}})
}
