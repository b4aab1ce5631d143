package optimize

import (
	"slices"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops"
	"github.com/onward-ml/onward/internal/ops/blocked"
	"github.com/onward-ml/onward/internal/ops/kit"
	"github.com/onward-ml/onward/internal/ops/msft"
)

// fuseConv merges what follows a Conv of float into it:
//
//	ChannelAffine(ChannelAffine(X))     → ChannelAffine(X)
//	Relu(Conv(…)), Clip(Conv(…), lo, hi) → FusedConv with an activation
//	Conv(…) + Z                          → FusedConv with a fourth input
//	com.microsoft.FusedConv(…)           → FusedConv
//
// and activations into a ChannelAffine.
func fuseConv(o *Options, g *ir.Graph) (int, error) {
	producer := g.Producers()
	uses := g.Uses()
	dead := make([]bool, len(g.Nodes))
	edits := 0
	// source returns the node that computes a value with a single use.
	source := func(id ir.ValueID) (int, *ir.Node) {
		if id == ir.None || uses[id] != 1 || producer[id] < 0 {
			return -1, nil
		}
		return producer[id], g.Nodes[producer[id]]
	}
	for i, n := range g.Nodes {
		if err := o.err(); err != nil {
			return 0, err
		}
		if len(n.Out) == 0 || n.Out[0] == ir.None || len(n.In) == 0 {
			continue
		}
		if op, ok := n.Op.(*msft.ActivatedConv); ok && isFloat(g, n.Out[0]) {
			if f := op.Fused(); f != nil {
				n.Op, n.Sig = f, nil
				edits++
			}
			continue
		}
		k, prev := source(n.In[0])
		var merged *ir.Node
		switch op := n.Op.(type) {
		case *blocked.ChannelAffine:
			if prev == nil || op.Act.Kind != kit.ActNone {
				continue
			}
			if a, ok := prev.Op.(*blocked.ChannelAffine); ok && a.Act.Kind == kit.ActNone {
				c := *prev
				c.Op = a.Then(op)
				merged = &c
			}
		case *ops.Relu, *ops.Clip:
			if prev != nil {
				merged = activate(g, prev, n)
			}
		case *ops.Add, *ops.Sum:
			if len(n.In) != 2 || n.In[1] == ir.None {
				continue
			}
			// Fuse the addition into the later one of two convolutions.
			k1, prev1 := source(n.In[1])
			if merged = addTo(g, prev1, n, 0); merged != nil && k1 > k {
				k = k1
				break
			}
			if m := addTo(g, prev, n, 1); m != nil {
				merged = m
			} else if merged != nil {
				k = k1
			}
		}
		if merged == nil {
			continue
		}
		merged.Out = n.Out
		g.Nodes[i] = merged
		dead[k] = true
		producer[n.Out[0]] = i
		edits++
	}
	kept := g.Nodes[:0:0]
	for i, n := range g.Nodes {
		if !dead[i] {
			kept = append(kept, n)
		}
	}
	g.Nodes = kept
	return edits, nil
}

// convOf returns the convolution of a node if more can be fused into it, that is, if it has no
// activation.
func convOf(g *ir.Graph, n *ir.Node) *ops.FusedConv {
	if n == nil || len(n.Out) != 1 || n.Out[0] == ir.None || !isFloat(g, n.Out[0]) {
		return nil
	}
	switch op := n.Op.(type) {
	case *ops.Conv:
		return &ops.FusedConv{Conv: *op}
	case *ops.FusedConv:
		if op.Act.Kind == kit.ActNone {
			return op
		}
	}
	return nil
}

// fused returns a copy of a node with another operator and other inputs.
func fused(n *ir.Node, op ir.Operator, in ...ir.ValueID) *ir.Node {
	c := *n
	c.OpType, c.Domain, c.Op, c.Sig, c.In = "FusedConv", "com.microsoft", op, nil, in
	return &c
}

func withInputs(n *ir.Node, count int) []ir.ValueID {
	in := slices.Clone(n.In)
	for len(in) < count {
		in = append(in, ir.None)
	}
	return in
}

// activate adds an activation to a convolution or an affine function.
func activate(g *ir.Graph, prev, n *ir.Node) *ir.Node {
	act := kit.Activation{Kind: kit.ActRelu}
	if c, ok := n.Op.(*ops.Clip); ok {
		act.Kind = kit.ActClip
		if act.Lo, act.Hi, ok = clipBounds(g, n, c); !ok || !isFloat(g, n.Out[0]) {
			return nil
		}
	}
	if a, ok := prev.Op.(*blocked.ChannelAffine); ok && a.Act.Kind == kit.ActNone {
		c := *prev
		c.Op = &blocked.ChannelAffine{Scale: a.Scale, Shift: a.Shift, Act: act}
		return &c
	}
	cv := convOf(g, prev)
	if cv == nil {
		return nil
	}
	return fused(prev, &ops.FusedConv{Conv: cv.Conv, Act: act}, prev.In...)
}

// clipBounds returns the bounds of a Clip of float32 if they are constant.
func clipBounds(g *ir.Graph, n *ir.Node, op *ops.Clip) (lo, hi float32, ok bool) {
	in, ok := constInputs(g, n)
	if !ok {
		return 0, 0, false
	}
	return op.Bounds(in)
}

// addTo adds the other summand of n to a convolution as its input 3.
func addTo(g *ir.Graph, prev, n *ir.Node, other int) *ir.Node {
	cv := convOf(g, prev)
	if cv == nil || len(prev.In) > 3 && prev.In[3] != ir.None {
		return nil
	}
	x, y := g.Values[prev.Out[0]].Type.Shape, g.Values[n.In[other]].Type.Shape
	if x == nil || len(x) != len(y) || !isFloat(g, n.In[other]) {
		return nil
	}
	for i := range x {
		if !x[i].Same(y[i]) {
			return nil
		}
	}
	in := withInputs(prev, 4)
	in[3] = n.In[other]
	return fused(prev, &ops.FusedConv{Conv: cv.Conv, Act: cv.Act}, in...)
}
