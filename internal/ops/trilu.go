package ops

import (
	"bytes"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/elementwise"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/internal/ops/kit/move"
)

// Trilu returns the upper or lower triangle of the innermost matrices of its input, with zeros
// elsewhere. Input k shifts the diagonal, which is included, to the right
// (https://onnx.ai/onnx/operators/onnx__Trilu.html).
type Trilu struct{ Upper bool }

var _ = kit.Register(&kit.Def{Name: "Trilu", Since: kit.Versions{14},
	In: "input:T, k:int64?", Out: "output:T", Types: "T: " + move.Types,
	Build:    func(a *kit.Attrs, opset int) kit.Operator { return &Trilu{Upper: a.Bool("upper", true)} },
	Gradient: gradient.Move})

// maskedTriluRow is the maximum number of bytes of a row for which a mask of a whole matrix is
// faster than to copy and clear parts of rows.
const maskedTriluRow = 256

// Infer implements ir.Operator.
func (op *Trilu) Infer(c *ir.InferContext) error {
	if s := c.Shape(0); s != nil && len(s) < 2 {
		return fail.Errorf("input has rank %d, want at least 2", len(s))
	}
	return kit.SameAsInput(c)
}

// Run implements ir.Operator.
func (op *Trilu) Run(c *ir.Call) error {
	x := c.Tensor(0)
	if x.Rank() < 2 {
		return fail.Errorf("input has rank %d, want at least 2", x.Rank())
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
	dst, err := move.Out(c, 0, x.DType(), x.Shape()...)
	if err != nil {
		return err
	}
	src, err := move.In(c, x)
	if err != nil || dst.Len() == 0 {
		return err
	}
	// kept returns the range of columns of a row that are copied.
	kept := func(row int) (from, to int) {
		edge := row%rows + k // columns below edge are left of the diagonal
		if !op.Upper {
			return 0, min(max(edge+1, 0), cols)
		}
		return min(max(edge, 0), cols), cols
	}
	w := dst.Width
	if size := rows * cols * w; !c.Generic && w > 0 && rows <= 2*cols && cols*w <= maskedTriluRow &&
		dst.Len()*w >= 4*size {
		mask, err := ir.ScratchOf[byte](c, size)
		if err != nil {
			return err
		}
		ones := bytes.Repeat([]byte{0xff}, cols*w)
		for row := range rows {
			from, to := kept(row)
			triluRow(mask[row*cols*w:][:cols*w], ones, from*w, to*w)
		}
		c.Parallel(dst.Len()*w/size, 1+(1<<17)/size, func(lo, hi int) {
			for m := lo; m < hi; m++ {
				y, x := dst.Raw[m*size:][:size], src.Raw[m*size:][:size]
				whole := size &^ 31
				elementwise.AndWords(y[:whole], x, mask)
				for i := whole; i < size; i++ {
					y[i] = x[i] & mask[i]
				}
			}
		})
		return nil
	}
	c.Parallel(dst.Len()/cols, 1+(1<<15)/cols, func(lo, hi int) {
		for row := lo; row < hi; {
			from, to := kept(row)
			first, n := row*cols, 1
			if from == to || to-from == cols { // as in the following rows
				n = min(hi-row, rows-row%rows)
				if edge := row%rows + k; op.Upper && edge <= 0 {
					n = min(n, 1-edge)
				} else if !op.Upper && edge < 0 {
					n = min(n, -edge)
				}
				from, to = from*n, to*n
			}
			if w == 0 {
				triluRow(dst.Strs[first:first+n*cols], src.Strs[first:], from, to)
			} else {
				triluRow(dst.Raw[first*w:(first+n*cols)*w], src.Raw[first*w:], from*w, to*w)
			}
			row += n
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
