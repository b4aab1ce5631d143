package ops

import (
	"github.com/onward-ml/onward/internal/fail"
	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/kit/gradient"
	"github.com/onward-ml/onward/internal/ops/kit/move"
)

// Transpose permutes the dimensions of a tensor: dimension i of the output is dimension Perm[i] of
// the input. Without Perm the order is reversed
// (https://onnx.ai/onnx/operators/onnx__Transpose.html).
type Transpose struct{ Perm []int }

var _ = kit.Register(&kit.Def{Name: "Transpose", Since: kit.Versions{1, 13, 21, 23, 24, 25},
	In: "data:T", Out: "transposed:T", Types: "T: @all",
	Selects:  kit.Always,
	Build:    func(a *kit.Attrs, opset int) kit.Operator { return &Transpose{Perm: a.Ints("perm")} },
	Gradient: gradient.Rule(transposeGradient)})

// transposeGradient transposes the gradient by the inverse permutation.
func transposeGradient(b *gradient.Builder, n *gradient.Node, g string) ([]string, error) {
	if !n.Attrs.Has("perm") {
		return []string{b.Op("Transpose", g)}, nil // reversed dimensions, reversed again
	}
	perm := n.Attrs.Ints("perm", nil)
	back := make([]int64, len(perm))
	for to, from := range perm {
		if from < 0 || from >= int64(len(perm)) {
			return nil, fail.Errorf("perm %v is not a permutation", perm)
		}
		back[from] = int64(to)
	}
	return []string{b.Node("Transpose", gradient.Attrs{"perm": back}, g)}, nil
}

// perm returns the permutation for an input of the given rank.
func (op *Transpose) perm(rank int) ([]int, error) {
	if op.Perm == nil {
		p := make([]int, rank)
		for i := range p {
			p[i] = rank - 1 - i
		}
		return p, nil
	}
	if len(op.Perm) != rank {
		return nil, fail.Errorf("perm %v has %d entries, but the input has rank %d", op.Perm, len(op.Perm), rank)
	}
	seen := make([]bool, rank)
	p := make([]int, rank)
	for i, a := range op.Perm {
		if a < -rank || a >= rank {
			return nil, fail.Errorf("perm %v has %d, want 0 to %d", op.Perm, a, rank-1)
		}
		if a < 0 {
			a += rank
		}
		if seen[a] {
			return nil, fail.Errorf("perm %v has dimension %d twice", op.Perm, a)
		}
		seen[a] = true
		p[i] = a
	}
	return p, nil
}

// Infer implements ir.Operator.
func (op *Transpose) Infer(c *ir.InferContext) error {
	in := c.Shape(0)
	if in == nil {
		var out []ir.Dim
		if op.Perm != nil {
			out = ir.UnknownDims(len(op.Perm))
		}
		kit.SetShape(c, 0, c.Elem(0), out)
		return nil
	}
	perm, err := op.perm(len(in))
	if err != nil {
		return err
	}
	out := make([]ir.Dim, len(in))
	for i, p := range perm {
		out[i] = in[p]
	}
	kit.SetShape(c, 0, c.Elem(0), out)
	kit.KeepContents(c, out)
	return nil
}

// Run implements ir.Operator.
func (op *Transpose) Run(c *ir.Call) error {
	x := c.Tensor(0)
	perm, err := op.perm(x.Rank())
	if err != nil {
		return err
	}
	shape := make([]int, len(perm))
	from := make([]int, len(perm))
	s := kit.Strides(x.Shape())
	for i, p := range perm {
		shape[i], from[i] = x.Dim(p), s[p]
	}
	dst, err := move.Out(c, 0, x.DType(), shape...)
	if err != nil {
		return err
	}
	src, err := move.In(c, x)
	if err != nil {
		return err
	}
	move.Strided(c, dst, src, shape, kit.Strides(shape), 0, from, 0)
	dst.Done()
	return nil
}
