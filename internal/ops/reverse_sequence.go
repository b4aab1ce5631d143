package ops

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/internal/ops/kit/move"
)

// ReverseSequence reverses, for each index of the batch axis, the first sequence_lens elements
// along the time axis. One of the axes is 0 and the other 1
// (https://onnx.ai/onnx/operators/onnx__ReverseSequence.html).
type ReverseSequence struct{ BatchAxis, TimeAxis int }

var _ = kit.Register(&kit.Def{Name: "ReverseSequence", Since: kit.Versions{10, 28},
	In: "input:T, sequence_lens:int64", Out: "Y:T", Types: "T: " + move.Types,
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		op := &ReverseSequence{BatchAxis: a.Int("batch_axis", 1), TimeAxis: a.Int("time_axis", 0)}
		if op.BatchAxis < 0 || op.BatchAxis > 1 || op.TimeAxis != 1-op.BatchAxis {
			a.Errorf("batch_axis is %d and time_axis %d, want 0 and 1 or 1 and 0", op.BatchAxis, op.TimeAxis)
		}
		return op
	},
	Gradient: gradient.Move})

// Infer implements ir.Operator.
func (op *ReverseSequence) Infer(c *ir.InferContext) error {
	if s := c.Shape(0); s != nil && len(s) < 2 {
		return fail.Errorf("input has rank %d, want at least 2", len(s))
	}
	if err := kit.CheckRank(c, 1, 1, "sequence_lens"); err != nil {
		return err
	}
	return kit.SameAsInput(c)
}

// Run implements ir.Operator.
func (op *ReverseSequence) Run(c *ir.Call) error {
	x, lens := c.Tensor(0), kit.Ints(c.Tensor(1))
	if x.Rank() < 2 {
		return fail.Errorf("input has rank %d, want at least 2", x.Rank())
	}
	batch, time := x.Dim(op.BatchAxis), x.Dim(op.TimeAxis)
	if len(lens) != batch {
		return fail.Errorf("sequence_lens has %d elements, want %d", len(lens), batch)
	}
	for b, n := range lens {
		if n < 0 || n > time {
			return fail.Errorf("sequence_lens has %d at position %d, want it in [0, %d]", n, b, time)
		}
	}
	at, err := ir.ScratchOf[int](c, batch*time)
	if err != nil {
		return err
	}
	bs, ts := x.Dim(1), 1
	if op.BatchAxis == 1 {
		bs, ts = ts, bs
	}
	for b, n := range lens {
		c.Serial(time, kit.GrainCheap, func(lo, hi int) {
			for t := lo; t < hi; t++ {
				from := t
				if t < n {
					from = n - 1 - t
				}
				at[b*bs+t*ts] = b*bs + from*ts
			}
		})
	}
	dst, err := move.Out(c, 0, x.DType(), x.Shape()...)
	if err != nil {
		return err
	}
	src, err := move.In(c, x)
	if err != nil {
		return err
	}
	move.Gather(c, dst, src, 1, 0, at, kit.Product(x.Shape()[2:]))
	dst.Done()
	return nil
}
