package exec

import (
	"context"
	"testing"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/tensor"
)

// push appends a tensor to a sequence without a copy.
type push struct{}

func (push) Infer(c *ir.InferContext) error { c.SetOut(0, c.Type(0)); return nil }
func (push) Run(c *ir.Call) error {
	s := c.In[0].(*tensor.Sequence)
	c.Set(0, &tensor.Sequence{Elem: s.Elem, Items: append(s.Items[:len(s.Items):len(s.Items)], c.In[1])})
	return nil
}

// repeat runs its subgraph n times with its inputs, each time with the previous results.
type repeat struct{ n int }

func (repeat) Iterates() {}
func (repeat) Infer(c *ir.InferContext) error {
	in := make([]ir.Value, c.NumIn())
	for i := range in {
		in[i].Type = c.Type(i)
		c.SetOut(i, c.Type(i))
	}
	_, err := c.InferGraph(0, in)
	return err
}

func (r repeat) Run(c *ir.Call) error {
	in := append([]tensor.Value(nil), c.In...)
	for range r.n {
		out, err := c.RunBody(0, in)
		if err != nil {
			return err
		}
		copy(in, out)
		for _, v := range out {
			c.Release(v)
		}
	}
	for i, v := range in {
		c.Set(i, tensor.Clone(v))
	}
	return nil
}

// TestRepeatedSubgraph checks results of earlier iterations that a body returns unchanged or keeps
// in a sequence, for sizes with planned and with separate memory.
func TestRepeatedSubgraph(t *testing.T) {
	seq := ir.Type{Kind: tensor.KindSequence, Of: new(ir.Type)}
	*seq.Of = ir.TensorType(tensor.TypeFloat32, ir.Symbol("N"), ir.Known(4))
	values := func(g *ir.Graph) (ids [4]ir.ValueID) {
		for i := range 3 {
			ids[i] = g.NewValue("", *seq.Of)
		}
		ids[3] = g.NewValue("", seq)
		return ids
	}
	const n = 7
	g, b := &ir.Graph{}, &ir.Graph{}
	// (x, y, z, s) becomes (x+1, x, y, s with y).
	in := values(b)
	next, pushed := b.NewValue("", ir.Type{}), b.NewValue("", ir.Type{})
	b.Inputs, b.Outputs = in[:], []ir.ValueID{next, in[0], in[1], pushed}
	b.Nodes = []*ir.Node{{OpType: "addOne", Op: addOne{}, In: in[:1], Out: []ir.ValueID{next}},
		{OpType: "push", Op: push{}, In: []ir.ValueID{in[3], in[1]}, Out: []ir.ValueID{pushed}}}
	outer, out := values(g), values(g)
	g.Inputs, g.Outputs = outer[:], out[:]
	g.Nodes = []*ir.Node{{OpType: "repeat", Op: repeat{n}, In: outer[:], Out: out[:], Graphs: []*ir.Graph{b}}}
	if err := ir.Infer(context.Background(), g); err != nil {
		t.Fatal(err)
	}
	for _, o := range []Options{{Generic: true}, {}, {Pool: NewPool(2, true)}, {Unplanned: true}} {
		p, err := Compile(t.Context(), g, o)
		if err != nil {
			t.Fatal(err)
		}
		for _, rows := range []int{3, 3, 3, 5000, 5000, 0, 3} {
			x := input(rows)
			got, err := p.Run(t.Context(), &Request{Inputs: []tensor.Value{x, x, x, &tensor.Sequence{Elem: x.Type()}}})
			if err != nil {
				t.Fatal(err)
			}
			want(t, got[0], x, n)
			want(t, got[1], x, n-1)
			want(t, got[2], x, n-2)
			items := got[3].(*tensor.Sequence).Items
			if len(items) != n {
				t.Fatalf("%d items, want %d", len(items), n)
			}
			for i, v := range items {
				want(t, v, x, float32(max(0, i-1)))
			}
		}
	}
}
