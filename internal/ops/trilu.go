package ops

import (
	"fmt"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
)

// Trilu returns the upper or lower triangle of the innermost matrices of its input, with zeros
// elsewhere. Input k shifts the diagonal, which is included, to the right
// (https://onnx.ai/onnx/operators/onnx__Trilu.html).
type Trilu struct{ Upper bool }

var _ = kit.Register(&kit.Def{Name: "Trilu", Since: kit.Versions{14},
	In: "input:T, k:int64?", Out: "output:T", Types: "T: " + kit.MoveTypes,
	Build:    func(a *kit.Attrs, opset int) kit.Operator { return &Trilu{Upper: a.Bool("upper", true)} },
	Gradient: kit.MoveGradient})

// Infer implements ir.Operator.
func (op *Trilu) Infer(c *ir.InferContext) error {
	if s := c.Shape(0); s != nil && len(s) < 2 {
		return fmt.Errorf("input has rank %d, want at least 2", len(s))
	}
	return kit.SameAsInput(c)
}

// Run implements ir.Operator.
func (op *Trilu) Run(c *ir.Call) error {
	x := c.Tensor(0)
	if x.Rank() < 2 {
		return fmt.Errorf("input has rank %d, want at least 2", x.Rank())
	}
	k := 0
	if c.Has(1) {
		var err error
		if k, err = kit.ScalarInt(c.Tensor(1), "k"); err != nil {
			return err
		}
	}
	rows, cols := x.Dim(x.Rank()-2), x.Dim(x.Rank()-1)
	k = min(max(k, -rows-1), cols+1)
	dst, err := kit.MoveOut(c, 0, x.DType(), x.Shape()...)
	if err != nil {
		return err
	}
	src, err := kit.MoveIn(c, x)
	if err != nil || dst.Len() == 0 {
		return err
	}
	c.Parallel(dst.Len()/cols, 1+(1<<15)/cols, func(lo, hi int) {
		for row := lo; row < hi; row++ {
			// Columns below edge are left of the diagonal.
			edge := row%rows + k
			if !op.Upper {
				edge++
			}
			edge = min(max(edge, 0), cols)
			keepFrom, keepTo := edge, cols
			if !op.Upper {
				keepFrom, keepTo = 0, edge
			}
			first := row * cols
			if dst.Width == 0 {
				triluRow(dst.Strs[first:first+cols], src.Strs[first:], keepFrom, keepTo)
			} else {
				w := dst.Width
				triluRow(dst.Raw[first*w:(first+cols)*w], src.Raw[first*w:], keepFrom*w, keepTo*w)
			}
		}
	})
	return nil
}

// triluRow copies [from, to) of src and clears the rest of dst.
func triluRow[T string | byte](dst, src []T, from, to int) {
	clear(dst[:from])
	copy(dst[from:to], src[from:])
	clear(dst[to:])
}
