package blocked

import (
	"slices"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/matmul"
	"github.com/onward-ml/onward/tensor"
)

// StridedMatMul multiplies batches of float matrices that are transposed in memory,
// without copying them:
//
//	Y = transpose(alpha · transpose(A, PermA) · transpose(B, PermB), PermY)
//
// All tensors have the same rank of at least 3 and equal leading dimensions.
type StridedMatMul struct {
	PermA, PermB, PermY []int
	Alpha               float32
}

// CanStride reports whether permutations leave rows or columns of all matrices
// contiguous.
func CanStride(permA, permB, permY []int) bool {
	n := len(permA)
	if n < 3 || n > 8 || len(permB) != n || len(permY) != n {
		return false
	}
	inner := func(p []int) bool { return p[n-1] == n-1 || p[n-2] == n-1 }
	// The columns of the result must stay contiguous.
	return inner(permA) && inner(permB) && permY[n-1] == n-1
}

// Infer permutes, multiplies and permutes shapes.
func (m *StridedMatMul) Infer(c *ir.InferContext) error {
	a, b := c.Shape(0), c.Shape(1)
	n := len(m.PermA)
	if len(a) != n || len(b) != n {
		return fail.Errorf("inputs have shapes %v and %v, want rank %d", a, b, n)
	}
	a, b = matmul.Permuted(a, m.PermA), matmul.Permuted(b, m.PermB)
	out := append(append([]ir.Dim{}, a[:n-1]...), b[n-1])
	c.SetOut(0, ir.TensorType(tensor.TypeFloat32, matmul.Permuted(out, m.PermY)...))
	return nil
}

// Run multiplies stack by stack.
func (m *StridedMatMul) Run(c *ir.Call) error {
	ta, tb := c.Tensor(0), c.Tensor(1)
	n := len(m.PermA)
	if ta.Rank() != n || tb.Rank() != n {
		return fail.Errorf("inputs have shapes %v and %v, want rank %d", ta.Shape(), tb.Shape(), n)
	}
	a, b := matmul.Permuted(ta.Shape(), m.PermA), matmul.Permuted(tb.Shape(), m.PermB)
	sa, sb := matmul.Permuted(kit.Strides(ta.Shape()), m.PermA), matmul.Permuted(kit.Strides(tb.Shape()), m.PermB)
	if !slices.Equal(a[:n-2], b[:n-2]) || a[n-1] != b[n-2] {
		return fail.Errorf("permuted inputs have shapes %v and %v, want equal batch and inner dimensions", a, b)
	}
	out := append(append([]int{}, a[:n-1]...), b[n-1])
	t, err := c.Output(0, tensor.TypeFloat32, matmul.Permuted(out, m.PermY)...)
	if err != nil || t.Len() == 0 {
		return err
	}
	sy := make([]int, n)
	for i, s := range kit.Strides(t.Shape()) {
		sy[m.PermY[i]] = s
	}
	x, w, y := tensor.MustData[float32](ta), tensor.MustData[float32](tb), tensor.MustData[float32](t)
	proto := gemm.Args[float32]{M: a[n-2], N: b[n-1], K: a[n-1], LdC: sy[n-2]}
	proto.Alpha = m.Alpha
	if proto.K == 0 {
		ir.Clear(c, y)
		return nil
	}
	// A dimension of size 1 has no stride that matters.
	if proto.LdA = sa[n-2]; sa[n-1] != 1 && proto.K > 1 {
		proto.LdA, proto.TransA = sa[n-1], true
	}
	if proto.LdB = sb[n-2]; sb[n-1] != 1 && proto.N > 1 {
		proto.LdB, proto.TransB = sb[n-1], true
	}
	count := kit.Product(a[:n-2])
	// matrices sets the matrices of product i.
	matrices := func(g *gemm.Args[float32], i int) {
		var oa, ob, oy int
		for d := n - 3; d > 0; d-- {
			k := i % a[d]
			i /= a[d]
			oa, ob, oy = oa+k*sa[d], ob+k*sb[d], oy+k*sy[d]
		}
		g.A, g.B, g.C = x[oa+i*sa[0]:], w[ob+i*sb[0]:], y[oy+i*sy[0]:]
	}
	if count < 2 {
		g := proto
		matrices(&g, 0)
		gemm.Parallel(c.Par(), cpu.Active(), &g)
		return c.Err()
	}
	c.Parallel(count, 1+(1<<15)/max(1, proto.M*proto.N*proto.K/8), func(lo, hi int) {
		g, level := proto, cpu.Active() // on the heap, once for all products
		for i := lo; i < hi && c.Err() == nil; i++ {
			matrices(&g, i)
			gemm.F32(level, &g, g.Whole())
		}
	})
	return c.Err()
}
