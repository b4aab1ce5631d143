package msft

import (
	"math"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/matmul"
	"github.com/onward-ml/onward/tensor"
)

// CDist returns the distances, [M K], between the rows of A, [M N], and the rows of B, [K
// N]
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.CDist).
type CDist struct{ Squared bool }

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "CDist", Since: kit.Versions{1}, In: "A:T, B:T",
	Out: "C:T", Types: "T: float double",
	Class: kit.ClassOther,
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &CDist{a.Enum("metric", "sqeuclidean", "sqeuclidean", "euclidean") == "sqeuclidean"}
	}})

// Infer sets the output to [M K].
func (*CDist) Infer(c *ir.InferContext) error {
	out := ir.UnknownDims(2)
	for i := range out {
		if err := kit.CheckRank(c, i, 2, []string{"A", "B"}[i]); err != nil {
			return err
		}
		if s := c.Shape(i); s != nil {
			out[i] = s[0]
		}
	}
	if a, b := c.Shape(0), c.Shape(1); a != nil && b != nil && a[1].Differs(b[1]) {
		return fail.Errorf("A and B have shapes %v and %v, want rows of equal length", a, b)
	}
	c.SetOut(0, ir.TensorType(c.Elem(0), out...))
	return nil
}

// Run computes the distances, summing in float64.
func (op *CDist) Run(c *ir.Call) error {
	if c.Tensor(0).DType() == tensor.TypeFloat64 {
		return cdist[float64](c, op)
	}
	return cdist[float32](c, op)
}

func cdist[T kit.RealFloat](c *ir.Call, op *CDist) error {
	at, bt := c.Tensor(0), c.Tensor(1)
	if at.Rank() != 2 || bt.Rank() != 2 || at.Dim(1) != bt.Dim(1) {
		return fail.Errorf("A and B have shapes %v and %v, want [M N] and [K N]", at.Shape(), bt.Shape())
	}
	m, k, n := at.Dim(0), bt.Dim(0), at.Dim(1)
	y, err := c.Output(0, at.DType(), m, k)
	if err != nil || m*k == 0 {
		return err
	}
	a, b, dst := tensor.MustData[T](at), tensor.MustData[T](bt), tensor.MustData[T](y)
	if c.Generic || n == 0 {
		c.Parallel(m, kit.GrainFor(k*n), func(lo, hi int) {
			for i := lo; i < hi && c.Err() == nil; i++ {
				for j := range k {
					dst[i*k+j] = rowDistance(op, a[i*n:][:n], b[j*n:][:n])
				}
			}
		})
		return c.Err()
	}
	// |a−b|² = |a|² + |b|² − 2a·b takes one GEMM. Where the terms cancel, the sum is computed from
	// the differences.
	as, err := squaredNorms(c, a, m, n)
	if err != nil {
		return err
	}
	bs, err := squaredNorms(c, b, k, n)
	if err != nil {
		return err
	}
	if err := matmul.One(c, &gemm.Args[T]{M: m, N: k, K: n, A: a, LdA: n, B: b, LdB: n, TransB: true, C: dst,
		LdC: k}); err != nil {
		return err
	}
	blocks := (m*k + cdistBlock - 1) / cdistBlock
	c.Parallel(blocks, kit.GrainFor(4*cdistBlock), func(lo, hi int) {
		var sums, far [cdistBlock]T
		meter := ir.Meter{C: c}
		for at := lo * cdistBlock; at < min(m*k, hi*cdistBlock) && c.Err() == nil; at += cdistBlock {
			block := dst[at:min(m*k, at+cdistBlock)]
			both := sums[:len(block)] // |a|² + |b|²
			for p := 0; p < len(both); {
				i, j := (at+p)/k, (at+p)%k
				part := both[p:min(len(both), p+k-j)]
				addNorms(part, bs[j:][:len(part)], as[i])
				p += len(part)
			}
			var exact []T // per distance, computed from the differences, or -1
			if !cdistSquares(block, both, far[:len(block)]) {
				exact = far[:len(block)]
				for p, d := range block {
					exact[p] = -1
					if !(d >= both[p]*cdistCancelled && d <= math.MaxFloat32) { // cancelled, infinite or NaN
						i, j := (at+p)/k, (at+p)%k
						exact[p] = rowDistance(op, a[i*n:][:n], b[j*n:][:n])
						meter.Check(n)
					}
				}
			}
			if !op.Squared {
				switch block := any(block).(type) {
				case []float32:
					vec.SqrtF32(cpu.Active(), block, block)
				case []float64:
					vec.SqrtF64(cpu.Active(), block, block)
				}
			}
			for p, d := range exact {
				if d != -1 {
					block[p] = d
				}
			}
		}
	})
	return c.Err()
}

const (
	cdistBlock = 512 // distances that are computed together
	// cdistCancelled is the part of |a|² + |b|² below which |a−b|² has lost too many bits.
	cdistCancelled = 1. / 8
)

// addNorms sets dst[j] = norms[j] + norm.
func addNorms[T kit.RealFloat](dst, norms []T, norm T) {
	if dst, ok := any(dst).([]float32); ok {
		vec.AddScalarF32(cpu.Active(), dst, any(norms).([]float32), float32(norm))
		return
	}
	for j, v := range norms {
		dst[j] = v + norm
	}
}

// cdistSquares converts dot products a·b to squared distances with both, the sums |a|² + |b|². It
// returns true if all are finite and no terms cancelled. far is scratch memory.
func cdistSquares[T kit.RealFloat](products, both, far []T) bool {
	x, ok := any(products).([]float32)
	if !ok {
		for i, dot := range products {
			products[i] = both[i] - 2*dot
		}
		return false
	}
	l, b, d := cpu.Active(), any(both).([]float32), any(far).([]float32)
	copy(d, b)
	vec.AxpyF32(l, d, x, -2)
	copy(x, d)
	vec.AxpyF32(l, d, b, -cdistCancelled)
	return vec.ReduceMinF32(l, d) >= 0 && vec.ReduceMaxF32(l, b) <= math.MaxFloat32
}

// squaredNorms returns the sum of the squares of each of m rows of n elements.
func squaredNorms[T kit.RealFloat](c *ir.Call, x []T, m, n int) ([]T, error) {
	r, err := ir.ScratchOf[T](c, m)
	if err != nil {
		return nil, err
	}
	c.Parallel(m, kit.GrainFor(n), func(lo, hi int) {
		for i := lo; i < hi && c.Err() == nil; i++ {
			row := x[i*n:][:n]
			switch row := any(row).(type) {
			case []float32:
				r[i] = T(vec.SumSquaresF32(cpu.Active(), row, 0))
			case []float64:
				r[i] = T(vec.SumSquaresF64(cpu.Active(), row))
			}
		}
	})
	return r, c.Err()
}

// rowDistance returns the distance of two rows, from their differences.
func rowDistance[T kit.RealFloat](op *CDist, a, b []T) T {
	sum := squaredDistance(a, b)
	if !op.Squared {
		sum = math.Sqrt(sum)
	}
	return T(sum)
}

// squaredDistance returns Σ (a[i]-b[i])². Four sums hide the latency of the additions.
func squaredDistance[T kit.RealFloat](a, b []T) float64 {
	var s0, s1, s2, s3 float64
	b = b[:len(a)]
	for ; len(a) >= 4 && len(b) >= 4; a, b = a[4:], b[4:] {
		d0, d1, d2, d3 := float64(a[0])-float64(b[0]), float64(a[1])-float64(b[1]), float64(a[2])-float64(b[2]),
			float64(a[3])-float64(b[3])
		s0, s1, s2, s3 = s0+d0*d0, s1+d1*d1, s2+d2*d2, s3+d3*d3
	}
	for i, v := range a {
		d := float64(v) - float64(b[i])
		s0 += d * d
	}
	return s0 + s1 + s2 + s3
}
