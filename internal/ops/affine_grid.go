package ops

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
)

// AffineGrid returns the grid with which [GridSample] applies affine maps, N×r×(r+1) matrices, to
// images of the given size, N×C×D1…Dr (https://onnx.ai/onnx/operators/onnx__AffineGrid.html).
type AffineGrid struct{ AlignCorners bool }

var _ = kit.Register(&kit.Def{Name: "AffineGrid", Since: kit.Versions{20}, In: "theta:T1, size:T2", Out: "grid:T1",
	Types: "T1: @float; T2: int64",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &AffineGrid{AlignCorners: a.Bool("align_corners", false)}
	}})

// Infer takes the sizes from size.
func (g *AffineGrid) Infer(c *ir.InferContext) error {
	t := ir.UnrankedTensor(c.Elem(0))
	defer func() { c.SetOut(0, t) }()
	if err := kit.CheckRank(c, 0, 3, "theta"); err != nil {
		return err
	}
	s := c.Contents(1)
	if s == nil {
		return nil
	}
	if len(s) != 4 && len(s) != 5 {
		return fail.Errorf("size has %d elements, want 4 or 5", len(s))
	}
	t.Shape = append(append([]ir.Dim{s[0]}, s[2:]...), ir.Known(len(s)-2))
	return nil
}

// Run computes in float64.
func (g *AffineGrid) Run(c *ir.Call) error {
	theta, size := c.Tensor(0), kit.Ints(c.Tensor(1))
	if len(size) != 4 && len(size) != 5 {
		return fail.Errorf("size has %d elements, want 4 or 5", len(size))
	}
	r := len(size) - 2
	if s := theta.Shape(); len(s) != 3 || s[0] != size[0] || s[1] != r || s[2] != r+1 {
		return fail.Errorf("theta has shape %v, want [%d %d %d]", s, size[0], r, r+1)
	}
	m, err := kit.RealIn[float64](c, theta)
	if err != nil {
		return err
	}
	dims := size[2:]
	shape := append(append([]int{size[0]}, dims...), r)
	y, err := kit.RealOut[float64](c, 0, theta.DType(), shape...)
	if err != nil || len(y.Data) == 0 {
		return err
	}
	places := kit.Product(dims)
	c.Parallel(size[0]*places, kit.GrainFor(r*r+8), func(lo, hi int) {
		at := make([]float64, r+1) // coordinates, last axis first, then 1
		at[r] = 1
		for p := lo; p < hi; p++ {
			for a, i := r-1, p%places; a >= 0; a-- {
				at[r-1-a] = g.coordinate(i%dims[a], dims[a])
				i /= dims[a]
			}
			t := m[p/places*r*(r+1):]
			for k := range r {
				sum := 0.0
				for j, v := range at {
					sum += t[k*(r+1)+j] * v
				}
				y.Data[p*r+k] = sum
			}
		}
	})
	y.Store()
	return c.Err()
}

// coordinate returns the normalized coordinate, in [−1, 1], of element i of d.
func (g *AffineGrid) coordinate(i, d int) float64 {
	switch {
	case !g.AlignCorners:
		return (2*float64(i)+1)/float64(d) - 1
	case d == 1:
		return 0
	}
	return 2*float64(i)/float64(d-1) - 1
}
