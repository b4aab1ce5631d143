package ops

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/internal/ops/kit/move"
	"github.com/onward-ml/onward/tensor"
)

// GatherND returns the slices of its first input whose leading coordinates are the innermost
// vectors of indices. Both inputs share the first BatchDims dimensions
// (https://onnx.ai/onnx/operators/onnx__GatherND.html).
type GatherND struct{ BatchDims int }

var _ = kit.Register(&kit.Def{Name: "GatherND", Since: kit.Versions{11, 12, 13},
	In: "data:T, indices:int64", Out: "output:T", Types: "T: " + move.Types,
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		op := &GatherND{}
		if opset >= 12 {
			op.BatchDims = a.Int("batch_dims", 0)
		}
		return op
	},
	Gradient: gradient.Move})

// Infer implements ir.Operator.
func (op *GatherND) Infer(c *ir.InferContext) error {
	data, idx := c.Shape(0), c.Shape(1)
	kit.SetShape(c, 0, c.Elem(0), nil)
	if data == nil || idx == nil {
		return nil
	}
	if b, lim := op.BatchDims, min(len(data), len(idx)); b < 0 || b >= lim {
		return fail.Errorf("batch_dims is %d, want it in [0, %d] for data of rank %d and indices of rank %d", b,
			lim-1, len(data), len(idx))
	}
	last := len(idx) - 1
	if width, ok := idx[last].Value(); ok {
		if width > len(data)-op.BatchDims {
			return fail.Errorf("indices of shape %v have %d coordinates for data of shape %v with %d batch dimensions",
				idx, width, data, op.BatchDims)
		}
		out := append([]ir.Dim{}, idx[:last]...)
		out = append(out, data[op.BatchDims+width:]...)
		kit.SetShape(c, 0, c.Elem(0), out)
	}
	return nil
}

// Run implements ir.Operator.
func (op *GatherND) Run(c *ir.Call) error {
	x := c.Tensor(0)
	idx, err := kit.ToScratch(c, c.Tensor(1), tensor.TypeInt64)
	if err != nil {
		return err
	}
	at, block, err := move.SliceOffsets(c, x.Shape(), idx, op.BatchDims)
	if err != nil {
		return err
	}
	q := idx.Rank() - 1
	shape := append([]int{}, idx.Shape()[:q]...)
	shape = append(shape, x.Shape()[op.BatchDims+idx.Dim(q):]...)
	dst, err := move.Out(c, 0, x.DType(), shape...)
	if err != nil {
		return err
	}
	src, err := move.In(c, x)
	if err != nil {
		return err
	}
	if block > 1 {
		for i := range at {
			at[i] /= block // slices start at multiples of their size
		}
	}
	move.Gather(c, dst, src, 1, 0, at, block)
	dst.Done()
	return nil
}
