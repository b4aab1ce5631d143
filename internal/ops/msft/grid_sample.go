package msft

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/kit"
)

// contribGridSample is the two-dimensional GridSample of opset 16. Its output has the
// type of X.
type contribGridSample struct{ ops.GridSample }

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "GridSample", Since: kit.Versions{1},
	In: "X:T1, Grid:T1", Out: "Y:T2",
	Class: kit.ClassShape,
	Types: "T1: float16 float double; T2: float16 float double",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		mode := a.Enum("mode", "bilinear", "bilinear", "nearest", "bicubic")
		return &contribGridSample{ops.GridSample{
			Mode:         map[string]string{"bilinear": "linear", "nearest": "nearest", "bicubic": "cubic"}[mode],
			Padding:      a.Enum("padding_mode", "zeros", "zeros", "border", "reflection"),
			AlignCorners: a.Bool("align_corners", false),
		}}
	}})

// Infer implements [ir.Operator].
func (g *contribGridSample) Infer(c *ir.InferContext) error {
	if err := g.GridSample.Infer(c); err != nil {
		return err
	}
	if s := c.Shape(0); s != nil && len(s) != 4 {
		return fail.Errorf("input has rank %d, want 4", len(s))
	}
	return nil
}
