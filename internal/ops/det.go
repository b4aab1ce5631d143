package ops

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/internal/ops/kit/matmul"
)

// Det returns the determinants of the innermost matrices
// (https://onnx.ai/onnx/operators/onnx__Det.html).
type Det struct{}

var _ = kit.Register(&kit.Def{Name: "Det", Since: kit.Versions{11, 22}, In: "X:T", Out: "Y:T", Types: "T: @float",
	Class: kit.ClassOther,
	Build: func(a *kit.Attrs, opset int) kit.Operator { return &Det{} },
	Gradient: gradient.Derivative(func(b *gradient.Builder, x, y, g string) string {
		return b.Op("Mul", b.Matrices(g), b.Op("onward.Cofactors", x))
	})})

// Infer removes the last two dimensions.
func (*Det) Infer(c *ir.InferContext) error {
	t := ir.UnrankedTensor(c.Elem(0))
	defer func() { c.SetOut(0, t) }()
	s := c.Shape(0)
	if s == nil {
		return nil
	}
	n := len(s) - 2
	if n < 0 {
		return fail.Errorf("input has rank %d, want at least 2", len(s))
	}
	if s[n].Differs(s[n+1]) {
		return fail.Errorf("matrices are %s×%s, want square ones", s[n], s[n+1])
	}
	t.Shape = append([]ir.Dim{}, s[:n]...)
	return nil
}

// Run uses Gaussian elimination with partial pivoting, in float64.
func (*Det) Run(c *ir.Call) error {
	t := c.Tensor(0)
	s := t.Shape()
	n := len(s) - 2
	if n < 0 || s[n] != s[n+1] {
		return fail.Errorf("input has shape %v, want square matrices", s)
	}
	x, err := kit.RealIn[float64](c, t)
	if err != nil {
		return err
	}
	y, err := kit.RealOut[float64](c, 0, t.DType(), s[:n]...)
	if err != nil || len(y.Data) == 0 {
		return err
	}
	m := s[n]
	work, err := ir.ScratchOf[float64](c, kit.WorkspaceCount(c, len(y.Data))*m*m)
	if err != nil {
		return err
	}
	err = kit.InWorkspaces(c, len(y.Data), func(ws, i int) error {
		a := work[ws*m*m:][:m*m]
		ir.Copy(c, a, x[i*m*m:][:m*m])
		d, err := matmul.Determinant(c, a, m)
		y.Data[i] = d
		return err
	})
	if err == nil {
		y.Store()
	}
	return err
}
