package ops

import (
	"fmt"
	"sync/atomic"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/tensor"
)

// GatherElements returns one element of its first input for each element of indices, which is the
// coordinate along Axis (https://onnx.ai/onnx/operators/onnx__GatherElements.html).
type GatherElements struct{ Axis int }

var _ = kit.Register(&kit.Def{Name: "GatherElements", Since: kit.Versions{11, 13},
	In: "data:T, indices:I", Out: "output:T", Types: "T: " + kit.MoveTypes + "; I: int32 int64",
	Build:    func(a *kit.Attrs, opset int) kit.Operator { return &GatherElements{Axis: a.Int("axis", 0)} },
	Gradient: kit.MoveGradient})

// Infer implements ir.Operator.
func (op *GatherElements) Infer(c *ir.InferContext) error {
	data, idx := c.Shape(0), c.Shape(1)
	kit.SetShape(c, 0, c.Elem(0), idx)
	if data == nil {
		return nil
	}
	if _, err := kit.NormalAxis(op.Axis, len(data)); err != nil {
		return err
	}
	if idx == nil {
		kit.SetShape(c, 0, c.Elem(0), ir.UnknownDims(len(data)))
	} else if len(idx) != len(data) {
		return fmt.Errorf("indices have rank %d, data has rank %d", len(idx), len(data))
	}
	return nil
}

// Run implements ir.Operator.
func (op *GatherElements) Run(c *ir.Call) error {
	x, idx := c.Tensor(0), c.Tensor(1)
	axis, err := kit.NormalAxis(op.Axis, x.Rank())
	if err != nil {
		return err
	}
	dst, err := kit.MoveOut(c, 0, x.DType(), idx.Shape()...)
	if err != nil {
		return err
	}
	src, err := kit.MoveIn(c, x)
	if err != nil {
		return err
	}
	if !gatherRows(c, dst, src, x.Shape(), idx, axis) {
		at, err := kit.ElementOffsets(c, x.Shape(), idx, axis)
		if err != nil {
			return err
		}
		kit.MoveGather(c, dst, src, 1, 0, at, 1)
	}
	dst.Done()
	return nil
}

// gatherRows gathers rows of elements of 4 or 8 bytes without a list of offsets. It reports whether it
// did: not if an index or a shape is invalid.
func gatherRows(c *ir.Call, dst, src kit.MoveBuf, shape []int, indices *tensor.Tensor, axis int) bool {
	box := indices.Shape()
	if c.Generic || indices.DType() != tensor.TypeInt64 || len(box) != len(shape) || box[len(box)-1] < kit.ShortRow {
		return false
	}
	for k, d := range box {
		if k != axis && d > shape[k] {
			return false
		}
	}
	switch dst.Width {
	case 4:
		return gatherRowsOf(c, kit.MoveOf[uint32](dst), kit.MoveOf[uint32](src), tensor.Of[int64](indices), shape, box, axis)
	case 8:
		return gatherRowsOf(c, kit.MoveOf[uint64](dst), kit.MoveOf[uint64](src), tensor.Of[int64](indices), shape, box, axis)
	}
	return false
}

func gatherRowsOf[E kit.MoveElem](c *ir.Call, dst, src []E, indices []int64, shape, box []int, axis int) bool {
	last := len(box) - 1
	width, steps, n := box[last], kit.Strides(shape), int64(shape[axis])
	var invalid atomic.Bool
	c.Parallel(kit.Product(box[:last]), kit.GrainFor(width), func(lo, hi int) {
		m := kit.Meter{C: c}
		for r := lo; r < hi && m.Spend(width); r++ {
			base := 0
			for k, i := last-1, r; k >= 0; k-- {
				if k != axis {
					base += i % box[k] * steps[k]
				}
				i /= box[k]
			}
			step, next := steps[axis], 1 // to the next index, to the next column
			if axis == last {
				next = 0
			}
			to := dst[r*width:][:width]
			for i, v := range indices[r*width:][:width] {
				if v < 0 {
					v += n
				}
				if uint64(v) >= uint64(n) {
					invalid.Store(true)
					return
				}
				to[i] = src[base+int(v)*step+i*next]
			}
		}
	})
	return !invalid.Load()
}
