package msft

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/attention"
)

// msRotaryEmbedding implements RotaryEmbedding of com.microsoft. position_ids is [batch,
// length], or one element, the position of the first token. The caches are [positions,
// angles]
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.RotaryEmbedding).
type msRotaryEmbedding struct {
	interleaved bool
	heads, dim  int
	scale       float32
}

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "RotaryEmbedding", Since: kit.Versions{1},
	In: "input:T, position_ids:int64, cos_cache:T, sin_cache:T", Out: "output:T",
	Class: kit.ClassArithmetic,
	Types: "T: float float16 bfloat16", Build: func(a *kit.Attrs, opset int) kit.Operator {
		op := &msRotaryEmbedding{a.Bool("interleaved", false), a.Int("num_heads", 0), a.Int("rotary_embedding_dim", 0),
			a.Float("scale", 1)}
		a.Ignore("is_packed_batching") // has no effect because positions are given
		if op.heads < 0 || op.dim < 0 || op.dim > 0 && op.heads == 0 {
			a.Errorf("num_heads and rotary_embedding_dim must be non-negative, and the latter requires the "+
				"former, got %d and %d", op.heads, op.dim)
		}
		return op
	}})

// Infer sets the output to the type of the input.
func (op *msRotaryEmbedding) Infer(c *ir.InferContext) error { return kit.SameAsInput(c) }

// Run rotates head by head.
func (op *msRotaryEmbedding) Run(c *ir.Call) error {
	x, cos := c.Tensor(0), c.Tensor(2)
	if cos.Rank() != 2 || cos.Dim(1) > 1<<30 {
		return fail.Errorf("cos_cache has shape %v, want [positions, angles]", cos.Shape())
	}
	size := 2 * cos.Dim(1)
	heads := op.heads
	if x.Rank() == 3 && heads == 0 {
		if size == 0 || x.Dim(2)%size != 0 {
			return fail.Errorf("input has shape %v, want a last dimension divisible by %d", x.Shape(), size)
		}
		heads = x.Dim(2) / size
	}
	if x.Rank() == 4 {
		heads = 0
	}
	in, err := attention.NewInput(x, "input", heads)
	if err != nil {
		return err
	}
	pos := kit.Ints(c.Tensor(1))
	if len(pos) == 1 && c.Tensor(1).Rank() < 2 {
		first := pos[0]
		if first < 0 || int64(first) > 1<<40 {
			return fail.Errorf("position_ids is %d, want 0 to 2^40", first)
		}
		if pos, err = ir.ScratchOf[int](c, in.Batch*in.Length); err != nil {
			return err
		}
		for i := range pos {
			pos[i] = first + i%in.Length
		}
	}
	return attention.RotaryRun(c, in, size, op.interleaved, op.scale, pos, 2, 3, 1)
}
