package optimize

import (
	"slices"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/blocked"
)

// channelShuffle replaces a channel shuffle that is written as three operators by ChannelShuffle:
//
//	Reshape(Transpose(Reshape(X, [N,g,C/g,H,W]), perm=[0,2,1,3,4]), [N,C,H,W])
func channelShuffle(o *Options, g *ir.Graph) (int, error) {
	if !has[*ops.Reshape](g) || !has[*ops.Transpose](g) {
		return 0, nil
	}
	producer, uses := g.Producers(), g.Uses()
	edits := 0
	shape := func(id ir.ValueID) []ir.Dim { return g.Values[id].Type.Shape }
	for i, n := range g.Nodes {
		if err := o.err(); err != nil {
			return 0, err
		}
		if _, ok := n.Op.(*ops.Reshape); !ok || !isFloat(g, n.Out[0]) || len(shape(n.Out[0])) != 4 {
			continue
		}
		t := only(g, n.In[0], producer, uses)
		if t == nil {
			continue
		}
		tr, ok := t.Op.(*ops.Transpose)
		if !ok || !slices.Equal(tr.Perm, []int{0, 2, 1, 3, 4}) {
			continue
		}
		r := only(g, t.In[0], producer, uses)
		if r == nil {
			continue
		}
		if _, ok := r.Op.(*ops.Reshape); !ok {
			continue
		}
		x, mid, y := shape(r.In[0]), shape(t.In[0]), shape(n.Out[0])
		if len(x) != 4 || len(mid) != 5 || !mid[1].IsKnown() || !x[1].Same(mid[1].Mul(mid[2])) {
			continue
		}
		same := x[0].Same(mid[0]) && x[2].Same(mid[3]) && x[3].Same(mid[4])
		for k := range x {
			same = same && x[k].Same(y[k])
		}
		groups, _ := mid[1].Value()
		if !same || groups < 2 {
			continue
		}
		c := *n
		c.OpType, c.Op, c.Sig, c.In = "ChannelShuffle", &blocked.ChannelShuffle{Groups: groups}, nil,
			[]ir.ValueID{r.In[0]}
		g.Nodes[i] = &c
		edits++
	}
	return edits, nil // the sweep removes unused nodes
}

// only returns the node that computes a value with a single use.
func only(g *ir.Graph, id ir.ValueID, producer, uses []int) *ir.Node {
	if id == ir.None || uses[id] != 1 || producer[id] < 0 {
		return nil
	}
	return g.Nodes[producer[id]]
}
