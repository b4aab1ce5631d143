package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/internal/ops/kit/move"
)

// Gather returns the slices of its first input along Axis that the indices select. The shape of the
// indices replaces the dimension (https://onnx.ai/onnx/operators/onnx__Gather.html).
type Gather struct{ Axis int }

var _ = kit.Register(&kit.Def{Name: "Gather", Since: kit.Versions{1, 11, 13},
	In: "data:T, indices:I", Out: "output:T", Types: "T: @all; I: int32 int64",
	Selects:  kit.Always,
	Build:    func(a *kit.Attrs, opset int) kit.Operator { return &Gather{Axis: a.Int("axis", 0)} },
	Gradient: gradient.Move})

// Infer implements ir.Operator.
func (op *Gather) Infer(c *ir.InferContext) error {
	data, idx := c.Shape(0), c.Shape(1)
	kit.SetShape(c, 0, c.Elem(0), nil)
	if data == nil {
		return nil
	}
	axis, err := kit.NormalAxis(op.Axis, len(data))
	if err != nil || idx == nil {
		return err
	}
	out := append([]ir.Dim{}, data[:axis]...)
	out = append(out, idx...)
	out = append(out, data[axis+1:]...)
	kit.SetShape(c, 0, c.Elem(0), out)
	if d := c.Contents(0); d != nil && len(data) == 1 && len(idx) <= 1 {
		at, ok := kit.KnownInts(c, 1)
		if !ok {
			return nil
		}
		r := make([]ir.Dim, len(at))
		for i, k := range at {
			if k < 0 {
				k += len(d)
			}
			if k >= 0 && k < len(d) {
				r[i] = d[k]
			}
		}
		c.SetContents(0, r)
	}
	return nil
}

// Run implements ir.Operator.
func (op *Gather) Run(c *ir.Call) error {
	x, idx := c.Tensor(0), c.Tensor(1)
	axis, err := kit.NormalAxis(op.Axis, x.Rank())
	if err != nil {
		return err
	}
	at, err := move.IndexList(c, idx, x.Dim(axis), "indices")
	if err != nil {
		return err
	}
	return move.GatherAxis(c, x, axis, at, idx.Shape())
}
