package ops

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/move"
	"github.com/onward-ml/onward/tensor"
)

// TensorScatter writes an update into a cache along Axis, for each index of the first dimension at
// write_indices (by default 0). In circular mode, elements beyond the end are written at the start
// (https://onnx.ai/onnx/operators/onnx__TensorScatter.html).
type TensorScatter struct {
	Axis     int
	Circular bool
}

var _ = kit.Register(&kit.Def{Name: "TensorScatter", Since: kit.Versions{24},
	In: "past_cache:T, update:T, write_indices:int64?", Out: "present_cache:T", Types: "T: @all",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		return &TensorScatter{Axis: a.Int("axis", -2),
			Circular: a.Enum("mode", "linear", "linear", "circular") == "circular"}
	}})

func (op *TensorScatter) axis(rank int) (int, error) {
	axis, err := kit.NormalAxis(op.Axis, rank)
	if err == nil && axis == 0 {
		err = fail.Errorf("axis must not be 0, the batch dimension")
	}
	return axis, err
}

// Infer implements ir.Operator.
func (op *TensorScatter) Infer(c *ir.InferContext) error {
	if s := c.Shape(0); s != nil {
		if _, err := op.axis(len(s)); err != nil {
			return err
		}
		if err := kit.CheckRank(c, 1, len(s), "update"); err != nil {
			return err
		}
	}
	if err := kit.CheckRank(c, 2, 1, "write_indices"); err != nil {
		return err
	}
	return kit.SameAsInput(c)
}

// Extends implements [ir.Appender]: the cache is updated in place.
func (op *TensorScatter) Extends(int) (in, axis int, ok bool) { return 0, op.Axis, true }

// Run implements ir.Operator.
func (op *TensorScatter) Run(c *ir.Call) error {
	past, up := c.Tensor(0), c.Tensor(1)
	axis, err := op.axis(past.Rank())
	if err != nil {
		return err
	}
	if up.Rank() != past.Rank() {
		return fail.Errorf("past_cache has rank %d, update has rank %d", past.Rank(), up.Rank())
	}
	for i, d := range up.Shape() {
		if p := past.Dim(i); d != p && (i != axis || d > p) {
			return fail.Errorf("update of shape %v does not match past_cache of shape %v in dimension %d",
				up.Shape(), past.Shape(), i)
		}
	}
	batch, size, n := past.Dim(0), past.Dim(axis), up.Dim(axis)
	start, err := kit.MakeInts(c, batch)
	if err != nil {
		return err
	}
	if t := c.Tensor(2); t != nil {
		if t.Len() != batch {
			return fail.Errorf("write_indices has shape %v, want [%d]", t.Shape(), batch)
		}
		copy(start, kit.Ints(t))
	}
	for b, s := range start {
		switch {
		case s < 0:
			return fail.Errorf("write_indices has %d at position %d, want at least 0", s, b)
		case op.Circular && size > 0:
			start[b] = s % size
		case s > size-n:
			return fail.Errorf("write_indices has %d at position %d: %d elements exceed a cache of %d", s, b, n, size)
		}
	}
	from, err := move.In(c, up)
	if err != nil {
		return err
	}
	cache, err := c.Extend(0, size)
	if err != nil {
		return err
	}
	var dst move.Buf
	room := size
	if cache != nil {
		room = cache.Room
		var all tensor.Tensor
		all.Reset(past.DType(), cache.Data, []int{len(cache.Data) / past.DType().Size()})
		if dst, err = move.Into(c, &all); err != nil {
			return err
		}
	} else {
		if dst, err = move.Out(c, 0, past.DType(), past.Shape()...); err != nil {
			return err
		}
		src, err := move.In(c, past)
		if err != nil {
			return err
		}
		move.Copy(c, dst, src)
	}
	outer, inner := move.AxisBlocks(past.Shape()[1:], axis-1)
	for b, s := range start {
		// The part before the end, and the part that continues at the start.
		for k, part := range [2][2]int{{0, min(n, size-s)}, {min(n, size-s), n}} {
			at := s
			if k == 1 {
				at = 0
			}
			move.Strided(c, dst, from, []int{outer, (part[1] - part[0]) * inner},
				[]int{room * inner, 1}, (b*outer*room+at)*inner,
				[]int{n * inner, 1}, (b*outer*n+part[0])*inner)
		}
	}
	dst.Done()
	return nil
}
