package msft

import (
	"slices"

	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/attention"
)

// MRotaryEmbedding rotates heads by three positions of each token (time, height and
// width), [3 batch length]. Each angle depends on one of them
// (https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#com.microsoft.MRotaryEmbedding).
type MRotaryEmbedding struct {
	Interleaved bool
	Heads, Dim  int
	Scale       float32
	Sections    [3]int // number of angles for each position
	Alternate   bool   // height and width each use every third angle, else the sections are consecutive
}

var _ = kit.Register(&kit.Def{Domain: kit.DomainMicrosoft, Name: "MRotaryEmbedding", Since: kit.Versions{1},
	In: "input:T, position_ids:M, cos_cache:T, sin_cache:T", Out: "output:T",
	Class: kit.ClassArithmetic,
	Types: "T: float float16 bfloat16; M: int64", Build: func(a *kit.Attrs, opset int) kit.Operator {
		a.Require("mrope_section")
		op := &MRotaryEmbedding{Interleaved: a.Bool("interleaved", false), Heads: a.Int("num_heads", 0),
			Dim:   a.Int("rotary_embedding_dim", 0),
			Scale: a.Float("scale", 1), Alternate: a.Int("mrope_layout", 0) == 1}
		a.Ignore("is_packed_batching") // has no effect because positions are given
		if op.Heads < 0 || op.Dim < 0 || op.Dim > 0 && op.Heads == 0 {
			a.Errorf("num_heads and rotary_embedding_dim must be non-negative, and the latter requires the "+
				"former, got %d and %d", op.Heads, op.Dim)
		}
		s := a.Ints("mrope_section")
		if len(s) != 3 || slices.Min(s) < 0 || slices.Max(s) > 1<<30 {
			a.Errorf("mrope_section is %v, want three non-negative sizes", s)
		}
		copy(op.Sections[:], s)
		return op
	}})

// Infer keeps the type of the input.
func (*MRotaryEmbedding) Infer(c *ir.InferContext) error { return kit.SameAsInput(c) }

// stream returns the index of the position that determines angle i.
func (op *MRotaryEmbedding) stream(i int) int {
	s := op.Sections
	switch {
	case op.Alternate && i%3 > 0 && i < 3*s[i%3]:
		return i % 3
	case op.Alternate || i < s[0]:
		return 0
	case i < s[0]+s[1]:
		return 1
	}
	return 2
}

// Run rotates head by head in float32.
func (op *MRotaryEmbedding) Run(c *ir.Call) error {
	x, cosT, sinT, pos := c.Tensor(0), c.Tensor(2), c.Tensor(3), kit.Ints(c.Tensor(1))
	if cosT.Rank() != 2 || !slices.Equal(cosT.Shape(), sinT.Shape()) || cosT.Dim(1) > 1<<30 {
		return fail.Errorf("cos_cache and sin_cache have shapes %v and %v, want twice [positions, angles]",
			cosT.Shape(), sinT.Shape())
	}
	rows, half := cosT.Dim(0), cosT.Dim(1)
	if s := op.Sections; s[0]+s[1]+s[2] != half {
		return fail.Errorf("mrope_section is %v, want a sum of %d angles", s, half)
	}
	heads := op.Heads
	if x.Rank() == 3 && heads == 0 && half > 0 {
		heads = x.Dim(2) / (2 * half)
	}
	if x.Rank() == 4 {
		heads = 0
	}
	in, err := attention.NewInput(x, "input", heads)
	if err != nil {
		return err
	}
	if in.Size < 2*half {
		return fail.Errorf("heads have size %d, want at least twice the number of angles, %d", in.Size, half)
	}
	if want := []int{3, in.Batch, in.Length}; !slices.Equal(c.Tensor(1).Shape(), want) {
		return fail.Errorf("position_ids has shape %v, want %v", c.Tensor(1).Shape(), want)
	}
	for _, p := range pos {
		if p < 0 || p >= rows {
			return fail.Errorf("position %d is out of range: the caches hold %d positions", p, rows)
		}
	}
	var v [3][]float32
	for i, t := range []int{0, 2, 3} {
		if v[i], err = kit.RealIn[float32](c, c.Tensor(t)); err != nil {
			return err
		}
	}
	y, err := kit.RealOut[float32](c, 0, x.DType(), x.Shape()...)
	if err != nil {
		return err
	}
	src, dst := attention.View(v[0], in), attention.View(y.Data, in)
	tokens := in.Batch * in.Length
	angles, err := ir.ScratchOf[float32](c, kit.WorkspaceCount(c, tokens)*2*half)
	if err != nil {
		return err
	}
	err = kit.InWorkspaces(c, tokens, func(ws, token int) error {
		if err := c.Err(); err != nil {
			return err
		}
		cos, sin := angles[ws*2*half:][:half], angles[ws*2*half+half:][:half]
		for i := range half {
			p := pos[op.stream(i)*tokens+token]
			cos[i], sin[i] = v[1][p*half+i], v[2][p*half+i]
		}
		b, t := token/in.Length, token%in.Length
		for h := range in.Heads {
			out := dst.At(b, h, t)[:in.Size]
			attention.RotateHead(out, src.At(b, h, t)[:in.Size], cos, sin, op.Interleaved)
			if op.Scale != 1 {
				for i := range out {
					out[i] *= op.Scale
				}
			}
		}
		return nil
	})
	if err == nil {
		y.Store()
	}
	return err
}
