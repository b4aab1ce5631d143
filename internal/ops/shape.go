package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
)

// Shape returns dimensions [Start, End) of its input as a vector. Negative bounds count from the
// rank; both are clamped to it (https://onnx.ai/onnx/operators/onnx__Shape.html).
type Shape struct {
	Start, End int
	ToRank     bool // no End is given
}

var _ = kit.Register(&kit.Def{Name: "Shape", Since: kit.Versions{1, 13, 15, 19, 21, 23, 24, 25},
	Class: kit.ClassShape,
	In:    "data:T", Out: "shape:int64", Types: "T: @all",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		if opset < 15 {
			return &Shape{ToRank: true}
		}
		return &Shape{Start: a.Int("start", 0), End: a.Int("end", 0), ToRank: !a.Has("end")}
	},
	Gradient: gradient.None})

// bounds returns the range of dimensions for a rank.
func (op *Shape) bounds(rank int) (lo, hi int) {
	clamp := func(v int) int {
		if v < 0 {
			v += rank
		}
		return min(max(v, 0), rank)
	}
	lo, hi = clamp(op.Start), rank
	if !op.ToRank {
		hi = clamp(op.End)
	}
	return lo, max(lo, hi)
}

// Infer implements ir.Operator.
func (op *Shape) Infer(c *ir.InferContext) error {
	in := c.Shape(0)
	if in == nil {
		c.SetOut(0, ir.TensorType(kit.TensorInt64, ir.Unknown))
		return nil
	}
	lo, hi := op.bounds(len(in))
	c.SetOut(0, ir.TensorType(kit.TensorInt64, ir.Known(hi-lo)))
	c.SetContents(0, append([]ir.Dim{}, in[lo:hi]...))
	return nil
}

// ReadsShapes implements ir.ShapeReader.
func (op *Shape) ReadsShapes() {}

// Run implements ir.Operator.
func (op *Shape) Run(c *ir.Call) error {
	x := c.Tensor(0)
	lo, hi := op.bounds(x.Rank())
	return kit.OutInt64s(c, 0, x.Shape()[lo:hi], hi-lo)
}
