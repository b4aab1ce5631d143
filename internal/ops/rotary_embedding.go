package ops

import (
	"fmt"

	"github.com/onward-ml/onward/internal/ir"
)

// RotaryEmbedding rotates pairs of elements of each head of X,
// [batch, heads, length, size] or [batch, length, heads·size], by angles that
// grow with the position: the caches hold their cosines and sines, either
// [positions, angles], looked up by position_ids, or [batch, length, angles]
// (https://onnx.ai/onnx/operators/onnx__RotaryEmbedding.html).
type RotaryEmbedding struct {
	Interleaved bool
	Heads       int // 0: not given
	Dim         int // elements of a head that are rotated, 0: all
}

var _ = register(Def{Name: "RotaryEmbedding", Since: []int{23}, In: "X:T, cos_cache:T, sin_cache:T, position_ids:int64?", Out: "Y:T",
	Types: Types{"T": "float float16 bfloat16"},
	Build: simple(func(a *Attrs, opset int) Operator {
		op := &RotaryEmbedding{a.Bool("interleaved", false), a.Int("num_heads", 0), a.Int("rotary_embedding_dim", 0)}
		if op.Heads < 0 || op.Dim < 0 || op.Dim%2 != 0 {
			a.Errorf("num_heads is %d and rotary_embedding_dim %d", op.Heads, op.Dim)
		}
		return op
	})})

// Infer sets Y to the type of X.
func (op *RotaryEmbedding) Infer(c *ir.InferContext) error { return sameAsInput(c) }

// Run rotates head by head.
func (op *RotaryEmbedding) Run(c *ir.Call) error {
	x := c.Tensor(0)
	heads := op.Heads
	if x.Rank() == 4 {
		heads = 0
	}
	in, err := newAttentionInput(x, "X", heads)
	if err != nil {
		return err
	}
	return rotaryRun(c, in, op.Dim, op.Interleaved, 1, ints(c.Tensor(3)), 1, 2, 3)
}

// rotaryRun rotates input 0. scale multiplies the result; the inputs
// iCos, iSin and iPos hold the caches and the positions, of which pos is the
// contents.
func rotaryRun(c *ir.Call, in attentionInput, dim int, interleaved bool, scale float32, pos []int, iCos, iSin, iPos int) error {
	if dim == 0 {
		dim = in.size
	}
	cosT, sinT := c.Tensor(iCos), c.Tensor(iSin)
	cs, ss := cosT.Shape(), sinT.Shape()
	rows := 0
	switch {
	case dim > in.size || dim%2 != 0:
		return fmt.Errorf("%d elements are rotated of heads of size %d, want an even number of these", dim, in.size)
	case len(cs) != len(ss) || cosT.Len() != sinT.Len() || len(cs) < 2 || cs[len(cs)-1] != dim/2 || ss[len(ss)-1] != dim/2:
		return fmt.Errorf("caches have shapes %v and %v, want [..., %d]", cs, ss, dim/2)
	case pos == nil && (len(cs) != 3 || cs[0] != in.batch || cs[1] != in.length):
		return fmt.Errorf("caches have shape %v without position_ids, want [%d %d %d]", cs, in.batch, in.length, dim/2)
	case pos != nil && len(cs) != 2:
		return fmt.Errorf("caches have shape %v with position_ids, want [positions %d]", cs, dim/2)
	case pos != nil:
		rows = cs[0]
	}
	if pos != nil && len(pos) != in.batch*in.length {
		return fmt.Errorf("position_ids has shape %v, want [%d %d]", c.Tensor(iPos).Shape(), in.batch, in.length)
	}
	for i, p := range pos {
		if p < 0 || p >= rows {
			return fmt.Errorf("position_ids[%d] is %d, want 0 to %d", i, p, rows-1)
		}
	}
	xd, err := realIn[float32](c, c.Tensor(0))
	if err != nil {
		return err
	}
	cos, err := realIn[float32](c, cosT)
	if err != nil {
		return err
	}
	sin, err := realIn[float32](c, sinT)
	if err != nil {
		return err
	}
	y, err := realOut[float32](c, 0, c.Tensor(0).DType(), c.Tensor(0).Shape()...)
	if err != nil {
		return err
	}
	src, dst := attentionView(xd, in), attentionView(y.data, in)
	half := dim / 2
	c.Parallel(in.batch*in.length, grainFor(in.heads*in.size), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			p := i
			if pos != nil {
				p = pos[i]
			}
			for h := range in.heads {
				out := dst.at(i/in.length, h, i%in.length)[:in.size]
				rotateHead(out, src.at(i/in.length, h, i%in.length)[:in.size], cos[p*half:][:half], sin[p*half:][:half], interleaved)
				if scale != 1 {
					for k := range out {
						out[k] *= scale
					}
				}
			}
		}
	})
	y.store()
	return nil
}
