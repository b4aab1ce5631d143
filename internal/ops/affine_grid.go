package ops

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// AffineGrid returns the grid with which [GridSample] applies affine maps, N×r×(r+1) matrices, to
// images of the given size, N×C×D1…Dr (https://onnx.ai/onnx/operators/onnx__AffineGrid.html).
type AffineGrid struct{ AlignCorners bool }

var _ = kit.Register(&kit.Def{Name: "AffineGrid", Since: kit.Versions{20}, In: "theta:T1, size:T2", Out: "grid:T1",
	Class: kit.ClassShape,
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
	if c.Tensor(0).DType() == tensor.TypeFloat64 {
		return affineGrid[float64](c, g)
	}
	return affineGrid[float32](c, g)
}

func affineGrid[T kit.RealFloat](c *ir.Call, g *AffineGrid) error {
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
	y, err := kit.RealOut[T](c, 0, theta.DType(), shape...)
	if err != nil || len(y.Data) == 0 {
		return err
	}
	places, width := kit.Product(dims), dims[r-1]
	last := make([]float64, width)
	for i := range last {
		last[i] = g.coordinate(i, width)
	}
	c.Parallel(size[0]*places/width, kit.GrainFor(width*r*(r+1)), func(lo, hi int) {
		var terms [3]float64 // of a coordinate that do not depend on the last axis
		for row := lo; row < hi; row++ {
			t := m[row*width/places*r*(r+1):]
			grid := y.Data[row*width*r:][:width*r]
			for k := range r {
				t := t[k*(r+1):][:r+1]
				for j, i := 0, row; j < r-1; j++ { // from the axis before the last one on
					d := dims[r-2-j]
					terms[j] = t[j+1] * g.coordinate(i%d, d)
					i /= d
				}
				terms[r-1] = t[r]
				f, t0, t1, t2 := t[0], terms[0], terms[1], terms[2]
				for i, x := range last {
					grid[i*r+k] = T(f*x + t0 + t1 + t2)
				}
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
