package msft

import (
	"fmt"
	"math"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// CDist returns the distances, [M K], between the rows of A, [M N], and the rows of B, [K
// N]
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.CDist).
type CDist struct{ Squared bool }

var _ = kit.Register(kit.Def{Domain: kit.DomainMicrosoft, Name: "CDist", Since: []int{1}, In: "A:T, B:T", Out: "C:T", Types: kit.Types{"T": "float double"},
	Build: kit.Simple(func(a *kit.Attrs, opset int) kit.Operator {
		return &CDist{a.Enum("metric", "sqeuclidean", "sqeuclidean", "euclidean") == "sqeuclidean"}
	})})

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
	c.Parallel(m, kit.GrainFor(k*n), func(lo, hi int) {
		for i := lo; i < hi && c.Err() == nil; i++ {
			row := a[i*n:][:n]
			for j := range k {
				sum := squaredDistance(row, b[j*n:][:n])
				if !op.Squared {
					sum = math.Sqrt(sum)
				}
				dst[i*k+j] = T(sum)
			}
		}
	})
	return c.Err()
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
