package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/internal/ops/kit/move"
	"github.com/onward-ml/onward/tensor"
)

// NonZero returns the coordinates of the elements that are not zero, one row per
// dimension and one column per element in row-major order; a scalar has no
// coordinates (https://onnx.ai/onnx/operators/onnx__NonZero.html).
type NonZero struct{}

var _ = kit.Register(&kit.Def{Name: "NonZero", Since: kit.Versions{9, 13},
	Class: kit.ClassShape,
	In:    "X:T", Out: "Y:int64", Types: "T: " + move.Types,
	Build:    func(a *kit.Attrs, opset int) kit.Operator { return &NonZero{} },
	Gradient: gradient.None})

// Infer implements ir.Operator.
func (op *NonZero) Infer(c *ir.InferContext) error {
	out := ir.UnknownDims(2)
	if s := c.Shape(0); s != nil {
		out[0] = ir.Known(len(s))
	}
	kit.SetShape(c, 0, kit.TensorInt64, out)
	return nil
}

// Run implements ir.Operator.
func (op *NonZero) Run(c *ir.Call) error {
	x := c.Tensor(0)
	at, err := move.NonZeroOffsets(c, x)
	if err != nil {
		return err
	}
	n := len(at)
	t, err := c.Output(0, kit.TensorInt64, x.Rank(), n)
	if err != nil {
		return err
	}
	out := tensor.MustData[int64](t)
	s := kit.Strides(x.Shape())
	last := x.Rank() - 1
	if last < 0 || n == 0 {
		return nil
	}
	width := x.Dim(last)
	c.Parallel(n, kit.GrainCheap/(last+1), func(lo, hi int) {
		columns := out[last*n:][:n]
		for i := lo; i < hi; { // the elements of a row differ in the last coordinate only
			begin := at[i] / width * width
			from := i
			for ; i < hi && at[i] < begin+width; i++ {
				columns[i] = int64(at[i] - begin)
			}
			for k := range last {
				kit.RepeatOf(out[k*n+from:k*n+i], int64(begin/s[k]%x.Dim(k)))
			}
		}
	})
	return nil
}
