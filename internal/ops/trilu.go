package ops

import (
	"fmt"

	"github.com/onward-ml/onward/internal/ir"
)

// Trilu keeps the upper or the lower triangle of the innermost matrices of its
// input and zeroes the rest; input k moves the diagonal, which is kept, to the
// right (https://onnx.ai/onnx/operators/onnx__Trilu.html).
type Trilu struct{ Upper bool }

var _ = register(Def{Name: "Trilu", Since: []int{14},
	In: "input:T, k:int64?", Out: "output:T", Types: Types{"T": moveTypes},
	Build: simple(func(a *Attrs, opset int) Operator { return &Trilu{Upper: a.Bool("upper", true)} })})

// Infer implements ir.Operator.
func (op *Trilu) Infer(c *ir.InferContext) error {
	if s := c.Shape(0); s != nil && len(s) < 2 {
		return fmt.Errorf("input has rank %d, want at least 2", len(s))
	}
	return sameAsInput(c)
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
		if k, err = scalarInt(c.Tensor(1), "k"); err != nil {
			return err
		}
	}
	rows, cols := x.Dim(x.Rank()-2), x.Dim(x.Rank()-1)
	k = min(max(k, -rows-1), cols+1)
	dst, err := moveOut(c, 0, x.DType(), x.Shape()...)
	if err != nil {
		return err
	}
	src, err := moveIn(c, x)
	if err != nil || dst.len() == 0 {
		return err
	}
	c.Parallel(dst.len()/cols, 1+(1<<15)/cols, func(lo, hi int) {
		for row := lo; row < hi; row++ {
			// Columns below edge are left of the diagonal.
			edge := row%rows + k
			if !op.Upper {
				edge++
			}
			edge = min(max(edge, 0), cols)
			d, s := dst.slice(row*cols, (row+1)*cols), src.slice(row*cols, (row+1)*cols)
			keepFrom, keepTo := edge, cols
			if !op.Upper {
				keepFrom, keepTo = 0, edge
			}
			moveClear(d.slice(0, keepFrom))
			moveClear(d.slice(keepTo, cols))
			d, s = d.slice(keepFrom, keepTo), s.slice(keepFrom, keepTo)
			copy(d.raw, s.raw)
			copy(d.strs, s.strs)
		}
	})
	return nil
}
