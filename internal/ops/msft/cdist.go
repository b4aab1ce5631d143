package msft

import (
	"fmt"
	"math"

	"github.com/onward-ml/onward/internal/cpu"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/kernels/gemm"
	"github.com/onward-ml/onward/internal/kernels/vec"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// CDist returns the distances, [M K], between the rows of A, [M N], and the rows of B, [K
// N]
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.CDist).
type CDist struct{ Squared bool }

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "CDist", Since: kit.Versions{1}, In: "A:T, B:T", Out: "C:T", Types: "T: float double",
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
		return fmt.Errorf("A and B have shapes %v and %v, want rows of equal length", a, b)
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
		return fmt.Errorf("A and B have shapes %v and %v, want [M N] and [K N]", at.Shape(), bt.Shape())
	}
	m, k, n := at.Dim(0), bt.Dim(0), at.Dim(1)
	y, err := c.Output(0, at.DType(), m, k)
	if err != nil || m*k == 0 {
		return err
	}
	a, b, dst := tensor.Of[T](at), tensor.Of[T](bt), tensor.Of[T](y)
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
	// |a−b|² = |a|² + |b|² − 2a·b takes one matrix product. Where the terms cancel, the sum is
	// computed from the differences.
	as, err := squaredNorms(c, a, m, n)
	if err != nil {
		return err
	}
	bs, err := squaredNorms(c, b, k, n)
	if err != nil {
		return err
	}
	if err := kit.MatMulOne(c, &gemm.Args[T]{M: m, N: k, K: n, A: a, LdA: n, B: b, LdB: n, TransB: true, C: dst, LdC: k}); err != nil {
		return err
	}
	c.Parallel(m, kit.GrainFor(4*k), func(lo, hi int) {
		for i := lo; i < hi && c.Err() == nil; i++ {
			meter := kit.Meter{C: c}
			row, norm := dst[i*k:][:k], as[i]
			if f, ok := any(row).([]float32); ok && cdistRow(f, float32(norm), any(bs).([]float32), op.Squared) {
				continue
			}
			for j, dot := range row {
				both := norm + bs[j]
				d := both - 2*dot
				if d >= both*cdistCancelled && d <= math.MaxFloat32 { // neither cancelled, infinite nor NaN
					row[j] = d
					if !op.Squared {
						row[j] = T(math.Sqrt(float64(d)))
					}
					continue
				}
				row[j] = rowDistance(op, a[i*n:][:n], b[j*n:][:n])
				meter.Check(n)
			}
		}
	})
	return c.Err()
}

// cdistCancelled is the part of |a|² + |b|² below which |a−b|² has lost too many bits.
const cdistCancelled = 1. / 8

// cdistRow converts a row of products to distances from norm and the norms of the columns. It reports
// whether none cancelled and all are finite; otherwise the row is unchanged.
func cdistRow(row []float32, norm float32, norms []float32, squared bool) bool {
	l := cpu.Active()
	var both, far [512]float32
	for pass := range 2 {
		for lo := 0; lo < len(row); lo += len(both) {
			x := row[lo:min(len(row), lo+len(both))]
			b, d := both[:len(x)], far[:len(x)]
			vec.AddScalarF32(l, b, norms[lo:lo+len(x)], norm)
			copy(d, b)
			vec.AxpyF32(l, d, x, -2)
			if pass == 1 {
				if copy(x, d); !squared {
					vec.SqrtF32(l, x, x)
				}
				continue
			}
			vec.AxpyF32(l, d, b, -cdistCancelled)
			if !(vec.ReduceMinF32(l, d) >= 0 && vec.ReduceMaxF32(l, b) <= math.MaxFloat32) {
				return false
			}
		}
	}
	return true
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
		d0, d1, d2, d3 := float64(a[0])-float64(b[0]), float64(a[1])-float64(b[1]), float64(a[2])-float64(b[2]), float64(a[3])-float64(b[3])
		s0, s1, s2, s3 = s0+d0*d0, s1+d1*d1, s2+d2*d2, s3+d3*d3
	}
	for i, v := range a {
		d := float64(v) - float64(b[i])
		s0 += d * d
	}
	return s0 + s1 + s2 + s3
}
