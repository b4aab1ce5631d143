package optimize

import (
	"slices"

	"github.com/onward-ml/onward/internal/ir"
	"github.com/onward-ml/onward/internal/ops/blocked"
)

// fuseBlockedMap lets a blocked convolution apply the function that follows it, row by row while the row is in the
// nearest cache.
func fuseBlockedMap(_ *Options, g *ir.Graph) (int, error) {
	return fuseBlocked(g, func(first, second *ir.Node) (op ir.Operator, name, opType string) {
		cv, ok := first.Op.(*blocked.Conv)
		m, isMap := second.Op.(*blocked.Map)
		if ok && isMap {
			if r := cv.Then(m); r != nil {
				return r, first.Name, first.OpType
			}
		}
		return nil, "", ""
	})
}

// fuseDepthwise makes one operator of a blocked convolution and the depthwise one of its result.
func fuseDepthwise(_ *Options, g *ir.Graph) (int, error) {
	return fuseBlocked(g, func(first, second *ir.Node) (op ir.Operator, name, opType string) {
		a, ok := first.Op.(*blocked.Conv)
		b, also := second.Op.(*blocked.Conv)
		if ok && also {
			if r := blocked.NewRolling(a, b); r != nil {
				return r, second.Name, "BlockedConvDepthwise"
			}
		}
		return nil, "", ""
	})
}

// fuseBlocked replaces pairs of nodes, the second of which is the only reader of what the first makes, by the operator that
// fuse gives, with its name and operator's name. It reads the inputs of the first, and those of the second but for its first.
func fuseBlocked(g *ir.Graph, fuse func(first, second *ir.Node) (op ir.Operator, name, opType string)) (int, error) {
	producer, uses := g.Producers(), g.Uses()
	gone := map[*ir.Node]bool{}
	for i, n := range g.Nodes {
		if len(n.In) == 0 || len(n.Out) != 1 {
			continue
		}
		first := only(g, n.In[0], producer, uses)
		if first == nil || gone[first] || len(first.Out) != 1 {
			continue
		}
		op, name, opType := fuse(first, n)
		if op == nil {
			continue
		}
		gone[first] = true
		g.Nodes[i] = &ir.Node{Name: name, OpType: opType, Domain: internalDomain, Opset: n.Opset, Op: op,
			In: append(slices.Clone(first.In), n.In[1:]...), Out: n.Out}
	}
	if len(gone) > 0 {
		g.Nodes = slices.DeleteFunc(g.Nodes, func(n *ir.Node) bool { return gone[n] })
	}
	return len(gone), nil
}
