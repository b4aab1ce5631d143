package ops

import (
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/attention"
)

// RotaryEmbedding rotates pairs of elements of each head of X, [batch, heads, length, size] or
// [batch, length, heads·size], by angles that increase with the position. The caches hold cosines
// and sines: [positions, angles], indexed by position_ids, or [batch, length, angles]
// (https://onnx.ai/onnx/operators/onnx__RotaryEmbedding.html).
type RotaryEmbedding struct {
	Interleaved bool
	Heads       int // 0: not set
	Dim         int // number of elements of a head that are rotated; 0: all
}

var _ = kit.Register(&kit.Def{Name: "RotaryEmbedding", Since: kit.Versions{23},
	In: "X:T, cos_cache:T, sin_cache:T, position_ids:int64?", Out: "Y:T",
	Class: kit.ClassArithmetic,
	Types: "T: float float16 bfloat16",
	Build: func(a *kit.Attrs, opset int) kit.Operator {
		op := &RotaryEmbedding{a.Bool("interleaved", false), a.Int("num_heads", 0), a.Int("rotary_embedding_dim", 0)}
		if op.Heads < 0 || op.Dim < 0 || op.Dim%2 != 0 {
			a.Errorf("num_heads is %d and rotary_embedding_dim %d, want non-negative numbers, the second one even",
				op.Heads, op.Dim)
		}
		return op
	}})

// Infer sets Y to the type of X.
func (op *RotaryEmbedding) Infer(c *ir.InferContext) error { return kit.SameAsInput(c) }

// Run rotates head by head.
func (op *RotaryEmbedding) Run(c *ir.Call) error {
	x := c.Tensor(0)
	heads := op.Heads
	if x.Rank() == 4 {
		heads = 0
	}
	in, err := attention.NewInput(x, "X", heads)
	if err != nil {
		return err
	}
	return attention.RotaryRun(c, in, op.Dim, op.Interleaved, 1, kit.Ints(c.Tensor(3)), 1, 2, 3)
}
